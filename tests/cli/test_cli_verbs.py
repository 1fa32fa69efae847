"""Every verb does what its help says, and ends with its code."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from command_line import SMALL, Said, call

from inferometer import __version__
from inferometer.cli.main import VERBS
from inferometer.store import RunDir


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Said]:
    """A run directory of two points, and what its making said."""
    out = tmp_path_factory.mktemp("runs") / "run"
    return out, call("predict", *SMALL, "--out", out)


@pytest.fixture(scope="module")
def run(predicted: tuple[Path, Said]) -> Path:
    return predicted[0]


@pytest.mark.parametrize("words", [*([verb] for verb in VERBS), ["engine", "simulated"]])
def test_the_help_of_every_verb_has_an_example(words: list[str]) -> None:
    said = call(*words, "--help")
    assert (said.code, said.err) == (0, "")
    assert "usage:" in said.out.lower()
    assert re.search(rf"Examples?:\n\s+inferometer {' '.join(words)} ", said.out)


def test_the_group_lists_every_verb() -> None:
    for word in ("-h", "--help"):
        said = call(word)
        assert said.code == 0
        for verb in VERBS:
            assert re.search(rf"^  {verb} +\S", said.out, re.MULTILINE)
    assert call().code == 2, "a call that asked for nothing is no success"


def test_the_version() -> None:
    said = call("--version")
    assert (said.code, said.out, said.err) == (0, f"inferometer, version {__version__}\n", "")


def test_a_verb_that_is_none_names_the_nearest() -> None:
    said = call("predcit")
    assert said.code == 2
    assert "no verb 'predcit'; did you mean 'predict'?" in said.err


def test_a_prediction_prints_its_table_and_keeps_its_page(predicted: tuple[Path, Said]) -> None:
    out, said = predicted
    assert said.code == 0
    table = said.out.splitlines()
    assert "simulated" in table[0]
    rows = [line for line in table if "h200" in line]
    assert len(rows) == 2
    assert all("valid" in row and "100/100" in row for row in rows)
    progress = said.err.splitlines()
    assert progress[0] == "[1/2] predict_256_16_tp1_c1"
    assert progress[1].startswith("    predict_256_16_tp1_c1: valid: ")
    assert progress[-1] == f"page: {out}/report.html"
    assert "predict_256_16_tp1_c2" in (out / "report.html").read_text()
    manifest = RunDir(out).manifest()
    assert manifest.command.startswith("inferometer predict --model Qwen/Qwen3-8B ")
    assert manifest.title == "predict Qwen/Qwen3-8B"


def test_the_same_command_again_says_that_all_is_done(run: Path) -> None:
    said = call("predict", *SMALL, "--out", run)
    assert said.code == 0
    assert said.err.splitlines()[0] == "2 of 2 points are done already"
    assert "[1/2]" not in said.err


def test_a_run_without_a_name_gets_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = call("predict", *SMALL[:-1], "1", "--format", "json")
    assert said.code == 0
    (out,) = (tmp_path / "runs").iterdir()
    assert re.fullmatch(r"predict-\d{8}T\d{6}", out.name)
    assert f"page: runs/{out.name}/report.html" in said.err


def stored(run: Path) -> list[dict[str, Any]]:
    folders = RunDir(run).finished()
    return [orjson.loads((folder.path / "result.json").read_bytes()) for folder in folders]


def test_show_prints_the_table_that_the_run_printed(predicted: tuple[Path, Said]) -> None:
    out, said = predicted
    shown = call("show", out)
    assert (shown.code, shown.out, shown.err) == (0, said.out, "")


def test_show_as_json_is_what_is_stored(run: Path) -> None:
    said = call("show", run, "--format", "json")
    assert said.code == 0
    assert [orjson.loads(line) for line in said.out.splitlines()] == stored(run)


def test_show_as_csv_has_every_metric_and_null_is_empty(run: Path) -> None:
    said = call("show", run, "--format", "csv")
    assert said.code == 0
    rows = list(csv.DictReader(io.StringIO(said.out)))
    results = stored(run)
    assert len(rows) == len(results) == 2
    for row, result in zip(rows, results, strict=True):
        assert (row["conc"], row["gpus"]) == (str(result["point"]["conc"]), "1")
        assert (row["provenance"], row["verdict"], row["reasons"]) == ("simulated", "valid", "")
        values = {name: row[name] for name in result["metrics"]}
        assert values == {
            name: "" if value is None else str(value) for name, value in result["metrics"].items()
        }
        assert "" in values.values()
        assert float(row["ttft_p50_s"]) > 0


def test_show_of_a_run_that_is_not_complete(tmp_path: Path) -> None:
    out = tmp_path / "run"
    call("predict", *SMALL, "--out", out)
    point = "predict_256_16_tp1_c2"
    (out / "points" / point / "result.json").unlink()
    said = call("show", out)
    assert said.code == 0
    assert f"not measured: {point}" in said.out
    assert len([line for line in said.out.splitlines() if "h200" in line]) == 1
    assert call("report", out).code == 0
    assert point in (out / "report.html").read_text()


@pytest.mark.parametrize("fault", ["corrupt", "unreadable"])
def test_a_result_that_cannot_be_read_hides_no_other(fault: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    call("predict", *SMALL, "--out", out)
    point = "predict_256_16_tp1_c2"
    file = out / "points" / point / "result.json"
    file.unlink()
    file.mkdir() if fault == "unreadable" else file.write_text('{"format": 1')
    said = call("show", out)
    assert said.code == 0
    assert f"not measured: {point} (unreadable: " in said.out
    assert str(file) in said.out
    assert len([line for line in said.out.splitlines() if "h200" in line]) == 1
    assert call("report", out).code == 0
    assert f"{point} (unreadable: " in (out / "report.html").read_text()


def test_report_writes_the_page_where_it_is_asked_to(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    said = call("report", run, "-o", page)
    assert (said.code, said.out, said.err) == (0, f"{page}\n", "")
    assert page.read_text() == (run / "report.html").read_text()
    (run / "report.html").unlink()
    assert call("report", run).out == f"{run}/report.html\n"
    assert page.read_text() == (run / "report.html").read_text()


@pytest.mark.parametrize("verb", ["show", "report"])
def test_a_directory_that_is_no_run(verb: str, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        said = call(verb, folder)
        assert (said.code, said.out) == (4, "")
        assert said.err == f"error: {folder}: no run.json; not the directory of a run\n"


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["predict", *SMALL, "--out", "FILE"], "FILE"),
        (["predict", *SMALL, "--out", "FILE/run"], "FILE/run"),
        (["report", "RUN", "-o", "FILE/page.html"], "FILE/page.html"),
    ],
)
def test_a_place_that_cannot_be_written_is_told(
    words: list[str], place: str, run: Path, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")

    def here(word: str) -> str:
        return word.replace("FILE", str(file)).replace("RUN", str(run))

    said = call(*map(here, words))
    assert said.code == 4
    assert said.err.startswith(f"error: {here(place)}: ")
    assert len(said.err.splitlines()) == 1
    assert file.read_text() == "mine"


def test_another_sweep_in_the_same_place_is_refused(run: Path) -> None:
    said = call("predict", *SMALL, "--seed", "7", "--out", run)
    assert said.code == 4
    assert said.err.startswith(f"error: {run}: holds another sweep (predict Qwen/Qwen3-8B, ")
    assert "resolved otherwise" in said.err


def test_an_invalid_point_ends_with_5(tmp_path: Path) -> None:
    """Prompts longer than the model's context: nothing can be sent."""
    words = ["--isl", "99999", "--requests", "5", "--concurrency", "1"]
    said = call("predict", *SMALL[:6], *words, "--out", tmp_path / "run")
    assert said.code == 5
    point = "predict_99999_128_tp1_c1"
    assert said.err.splitlines()[-1] == f"error: 1 of 1 points invalid: {point}"
    assert "invalid (short_window, no_samples" in said.out


def test_a_point_that_cannot_be_measured_ends_with_3(tmp_path: Path) -> None:
    words = ["--model", "deepseek-ai/DeepSeek-R1-0528", "--gpu", "h200", "--tp", "1"]
    said = call("predict", *words, "--concurrency", "1", "--out", tmp_path / "run")
    assert said.code == 3
    point = "predict_1024_128_tp1_c1"
    assert f"not measured: {point}" in said.out
    assert f"    {point}: failed: the engine would not start: " in said.err
    assert "1 of 1 points could not be measured" in said.err.splitlines()[-1]
    assert "run again to try them again" in said.err.splitlines()[-1]


def test_a_prediction_for_a_model_with_gaps_names_the_figures(tmp_path: Path) -> None:
    out = tmp_path / "run"
    said = call("predict", "--model", "moonshotai/Kimi-K3", "--gpu", "b300", "--out", out)
    assert said.code == 2
    assert "error: the catalog lacks layers, growing_kv_layers, hidden, heads" in said.err
    assert "no configuration of it is at hand" in said.err
    assert not out.exists()


def test_a_model_with_compressed_kv_can_be_predicted(tmp_path: Path) -> None:
    words = "--model dsv4 --gpu b300 --tp 8 --precision fp4 --isl 256 --osl 16 --requests 20"
    out = tmp_path / "run"
    said = call("predict", *words.split(), "--warmup", "1", "--concurrency", "1", "--out", out)
    assert said.code == 0, said.err
    assert "predict_256_16_tp8_c1: valid: " in said.err
