"""The table of results on terminals of any width, and names that look like markup."""

from __future__ import annotations

from dataclasses import replace

import pytest
from command_line import SMALL, call
from rich.console import Console

from inferometer.cli.output import print_results
from inferometer.core import Reason, Result, Slo, Verdict
from inferometer.store import RunDir

CODES = ("short_window", "no_samples", "context_overflow")
KEPT = ("conc", "/GPU", "/user", "p50 s", "verdict")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    """Two points; the second is invalid for three reasons and has a large throughput."""
    out = tmp_path_factory.mktemp("runs") / "run"
    assert call("predict", *SMALL, "--out", out).code == 0
    good, bad = (folder.result() for folder in RunDir(out).finished())
    reasons = tuple(Reason(code, "invalid", code, None, None) for code in CODES)
    metrics = {**bad.metrics, "total_tok_s_per_gpu": 1_234_567.0, "ttft_p50_s": 3.25}
    return [good, replace(bad, verdict=Verdict("invalid", reasons, ()), metrics=metrics)]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(Console, "is_terminal", True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("LINES", "24")
    return monkeypatch


def shown(
    results: list[Result],
    width: int,
    terminal: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> list[str]:
    terminal.setenv("COLUMNS", str(width))
    print_results(results, [], "table")
    text = capsys.readouterr().out.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert "…" not in text
    return text.splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 110, 200])
def test_numbers_are_whole_at_any_width(
    width: int,
    results: list[Result],
    terminal: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = shown(results, width, terminal, capsys)
    assert max(map(len, lines)) <= width
    heading = lines[2]
    assert all(name in heading for name in KEPT)
    (row,) = (line for line in lines if "invalid" in line)
    assert "1,234,567" in row
    assert "3.250" in row
    (other,) = (line for line in lines if " valid" in line)
    assert f"{results[0].metrics['total_tok_s_per_gpu']:,.0f}" in other
    assert f"{results[0].metrics['intvty_p50']:,.1f}" in other


def test_objectives_that_differ_are_told_by_point(
    results: list[Result], capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = results
    print_results([good, replace(bad, slos=(Slo("ttft", 2.0),))], (), "table")
    assert capsys.readouterr().out.splitlines()[-2:] == [
        f"objectives of {good.point.id}: none",
        f"objectives of {bad.point.id}: ttft <= 2 s",
    ]
    print_results(results, (), "table")
    assert "objectives" not in capsys.readouterr().out


def test_goodput_that_is_withheld_is_told_with_the_reason(
    results: list[Result], capsys: pytest.CaptureFixture[str]
) -> None:
    held, name = (Slo("itl_p99", 0.02),), "goodput_requests_s"
    known, untold = (
        replace(result, slos=held, metrics={**result.metrics, name: value}, notes={name: "why"})
        for result, value in zip(results, (1.5, None), strict=True)
    )
    print_results([known, untold], (), "table")
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "objectives: itl_p99 <= 0.02 s",
        f"no goodput of {untold.point.id}: why",
    ]


def test_what_matters_less_goes_first(
    results: list[Result], terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wide, middle, narrow = (
        "\n".join(shown(results, width, terminal, capsys)) for width in (200, 80, 40)
    )
    assert "100/100" in wide
    assert "100/100" not in middle
    assert all(code in wide and code in middle for code in CODES)
    assert "flight" not in middle
    assert "parallel" in middle
    assert "parallel" not in narrow
    assert "short_window" not in narrow


def test_the_config_is_shown_where_it_alone_tells_rows_apart(
    results: list[Result], terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = results
    assert "predict" not in "\n".join(shown([one, two], 200, terminal, capsys))
    other = replace(two, point=replace(two.point, config="other"))
    lines = shown([one, other], 50, terminal, capsys)
    assert [line.split()[0] for line in lines[-2:]] == ["predict", "other"]
    elsewhere = replace(other, point=replace(other.point, hardware="b200"))
    assert "predict" not in "\n".join(shown([one, elsewhere], 200, terminal, capsys))


def test_a_terminal_too_narrow_gets_whole_numbers_all_the_same(
    results: list[Result], terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(results, 20, terminal, capsys)
    assert any("1,234,567" in line and "3.250" in line for line in lines)


@pytest.mark.parametrize("name", ["[/red]", "[bold]x[/bold]", "a[b]c\\\\"])
@pytest.mark.parametrize("on_terminal", [True, False])
def test_a_name_is_no_markup(
    name: str,
    on_terminal: bool,
    results: list[Result],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Console, "is_terminal", on_terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    one = results[0]
    print_results([replace(one, point=replace(one.point, hardware=name))], [], "table")
    assert name in capsys.readouterr().out


def test_counts_that_are_not_known_are_no_fault(
    results: list[Result], capsys: pytest.CaptureFixture[str]
) -> None:
    print_results([replace(results[0], counts={"sent": 7})], [], "table")
    assert "–/7" in capsys.readouterr().out
