"""What is wrong with the options alone is told before an engine is asked or a directory made."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import call
from test_cli_mistakes import write

from webserver import Quiet, serving

NOWHERE = "http://127.0.0.1:1"

Options = list[tuple[str, str | None, str]]
EVERY_VERB: Options = [
    ("--slo", "tpto:5ms", "did you mean 'tpot'?"),
    ("--replies", "life", "'life' is not one of 'canned', 'live'"),
]
CLIENT: Options = [
    ("--header", "bad name:x", "a header is a name of letters"),
    ("--workers", "0", "0 is not in the range 1<=x<=256"),
    ("--workers", "1000000", "1000000 is not in the range"),
]
LOAD: Options = [
    ("--duration", "1e300", "workload.duration_s: expected a number of seconds above 0, at most"),
    ("--duration", "-1", "-1.0 is not in the range"),
    ("--requests", "9999999999", "workload.requests: expected an integer of at most"),
    ("--seed", "99999999999999999999", "workload.seed: expected an integer of at most"),
    ("--warmup", "9999999999", "workload.warmup_requests_per_lane: expected an integer of at"),
    ("--concurrency", "1,0", "is not a list of positive integers"),
    ("--rate", "1e-300", "workload.rate: expected a number above 0, from 1e-9 to 1e9"),
    ("--rate", "inf", "workload.rate: expected a number above 0"),
    ("--ramp-rate", "1:5", "'1:5' is no ramp"),
    ("--ramp-rate", "1:5:1e300", "workload.rate_ramp_s: expected a number of seconds above 0, at"),
    ("--arrival", "poisson", "--arrival poisson needs --rate"),
    ("--burstiness", "2", "--burstiness goes only with gamma"),
    ("--timestamps", None, "fixed lengths have no timestamps"),
    ("--replies", "live", "no later turn in fixed lengths"),
]
PROMPTS: Options = [
    ("--token-ids", None, "token ids need a tokenizer"),
    ("--endpoint", "complete", "'complete' is not one of 'chat', 'completions'"),
]


def refused(message: str, *words: str | Path) -> None:
    said = call(*words)
    assert said.code == 2, said.err
    assert message in " ".join(said.err.split())


@pytest.mark.parametrize(("option", "value", "message"), EVERY_VERB + CLIENT + LOAD + PROMPTS)
def test_bench_asks_no_engine(
    option: str, value: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(message, "bench", NOWHERE, option, *filter(None, [value]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("option", "value", "message"), EVERY_VERB + LOAD)
def test_predict_begins_nothing(
    option: str, value: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(message, "predict", option, *filter(None, [value]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        *EVERY_VERB,
        *CLIENT,
        ("--site", "nowhere.yaml", "nowhere.yaml: cannot be read"),
        ("--key", "qwem", "did you mean 'qwen'"),
        ("--conc", "7", "7"),
    ],
)
def test_run_starts_no_engine(
    option: str, value: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    refused(message, "run", "master.yaml", "--runners", "runners.yaml", option, value)
    assert set(tmp_path.iterdir()) == before


def test_prompts_longer_than_a_play_has_numbers_for(tmp_path: Path) -> None:
    out = tmp_path / "run"
    refused("isl: at most 67,108,736 tokens", "predict", "--isl", "100000000", "--out", out)
    assert not out.exists()


class Lists(Quiet):
    """Lists a model, and answers nothing else."""

    def answer(self) -> tuple[int, bytes]:
        return (200, b'{"data":[{"id":"m"}]}') if self.path == "/v1/models" else (404, b"{}")


@pytest.mark.sockets
def test_a_tokenizer_that_is_none_begins_no_run(tmp_path: Path) -> None:
    broken, out = tmp_path / "tokenizer.json", tmp_path / "run"
    broken.write_text('{"model": {}}')
    with serving(Lists) as url:
        refused("tokenizer", "bench", url, "--tokenizer", str(broken), "--out", out)
    assert not out.exists()
