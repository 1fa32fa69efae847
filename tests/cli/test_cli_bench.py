"""`bench` against a server that logs what it sent and when: nothing lost, nothing invented."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from command_line import call

from inferometer.core import Phase, Record
from inferometer.store import RunDir
from referee import Truth, build_referee, running_referee

pytestmark = pytest.mark.sockets

PLAN = "ttft=30+itl=5+n=20"
EARLY_NS = 1_000_000


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_referee(tmp_path_factory.mktemp("truthserver"))


def check(record: Record, truth: Truth) -> None:
    """Every token event, and no stamp before what it is a stamp of."""
    exchange = record.exchange
    assert exchange.sent_ns is not None
    assert record.first_token_ns is not None
    assert record.last_token_ns is not None
    assert len(truth.chunk_ns) == len(exchange.arrivals) == 20
    assert exchange.sent_ns <= truth.request_ns, "sent before it came in"
    assert record.first_token_ns >= truth.chunk_ns[0] - EARLY_NS
    assert record.last_token_ns >= truth.chunk_ns[-1] - EARLY_NS
    early = exchange.arrivals.at_ns - truth.chunk_ns
    assert early.min() >= -EARLY_NS, "a token was stamped before it was written"


def check_warmup(records: list[Record], lanes: int, opens_ns: int) -> int:
    """One a lane, and what lanes that were warm sent before the last one was. How many that are
    is a matter of chance.
    """
    in_order = sorted(records, key=lambda record: record.scheduled_ns, reverse=True)
    first = {record.lane: record for record in in_order}
    assert len(first) == lanes
    assert max(record.exchange.end_ns for record in first.values()) <= opens_ns
    warmup = [record for record in records if record.phase is Phase.WARMUP]
    assert {record.request_id for record in first.values()} <= {r.request_id for r in warmup}
    assert all(record.scheduled_ns <= opens_ns for record in warmup)
    return len(warmup)


def test_a_bench_records_what_the_server_sent(binary: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["--concurrency", "4", "--requests", "24", "--warmup", "1"]
    with running_referee(binary, tmp_path / "truth.csv") as referee:
        said = call("bench", referee.url, "--model", PLAN, *words, "--out", out)
        truths = referee.stop()
    # On a busy machine the client itself may be late, which is not the matter here.
    assert said.code in (0, 5)
    head = said.err.splitlines()
    assert f"does not list '{PLAN}'; it lists: truth" in head[0]
    assert head[1].startswith("seed: ")
    (folder,) = RunDir(out).finished()
    records = folder.records()
    measured = [record for record in records if record.phase is Phase.MEASURED]
    assert len(measured) == 24
    assert len(records) == len(truths)
    result = folder.result()
    warmup = check_warmup(records, lanes=4, opens_ns=result.window.start_ns)
    assert warmup == len(records) - 24
    for record in records:
        assert record.exchange.status == "ok"
        assert record.output_tokens == record.exchange.completion_tokens == 20
        check(record, truths[record.request_id])
    assert (result.counts["sent"], result.counts["ok"], result.counts["warmup"]) == (24, 24, warmup)
    assert result.provenance == "measured"
    for side in ("engine", "client"):
        assert result.counts[f"{side}_requests"] == len(records)
        assert result.counts[f"{side}_generation_tokens"] == len(records) * 20
    ttft_s = result.metrics["ttft_p50_s"]
    assert ttft_s is not None
    assert ttft_s >= 0.030 - EARLY_NS / 1e9
    assert not (folder.path / "server.log").exists()


def test_a_server_that_fails_makes_the_point_invalid(binary: Path, tmp_path: Path) -> None:
    words = ["--concurrency", "2", "--requests", "24", "--warmup", "0"]
    with running_referee(binary, tmp_path / "truth.csv") as referee:
        said = call("bench", referee.url, "--model", "status=503", *words, "--out", tmp_path / "r")
    assert said.code == 5
    assert said.err.splitlines()[-1] == "error: 1 of 1 points invalid: bench_1024_128_tp1_c2"
    (folder,) = RunDir(tmp_path / "r").finished()
    reason = folder.result().window.stop_reason
    assert reason is not None
    assert "HTTP 503" in reason
    # What was open when it stopped is cancelled.
    failed = [record for record in folder.records() if record.exchange.status != "cancelled"]
    assert {record.exchange.http_status for record in failed} == {503}


def test_the_first_model_is_asked_for_and_the_seed_is_kept(binary: Path, tmp_path: Path) -> None:
    with running_referee(binary, tmp_path / "truth.csv") as referee:
        words = ["--concurrency", "1", "--requests", "3", "--warmup", "0", "--seed", "5"]
        said = call("bench", f"{referee.url}/v1/", *words, "--osl", "4", "--out", tmp_path / "r")
    assert said.code in (0, 5)
    assert said.err.splitlines()[:2] == [
        "note: rates per GPU assume 1 GPU; say --gpus if there are more",
        "[1/1] bench_1024_4_tp1_c1",
    ]
    run = RunDir(tmp_path / "r")
    assert (run.manifest().seed, run.manifest().title) == (5, "bench truth")
    (folder,) = run.finished()
    assert folder.result().point.max_model_len == 1_048_576
    assert folder.result().counts["ok"] == 3


def test_an_open_loop_sends_what_is_due_when_it_is(binary: Path, tmp_path: Path) -> None:
    """Answers take 130 ms and arrivals come 20 ms apart: nothing waits for an answer."""
    out = tmp_path / "run"
    words = ["--rate", "50", "--arrival", "constant", "--requests", "60", "--warmup", "0"]
    with running_referee(binary, tmp_path / "truth.csv") as referee:
        said = call("bench", referee.url, "--model", PLAN, *words, "--isl", "16", "--out", out)
        truths = referee.stop()
    assert said.code in (0, 5)
    (folder,) = RunDir(out).finished()
    records = sorted(folder.records(), key=lambda record: record.scheduled_ns)
    assert len(records) == len(truths) == 60
    first_ns = records[0].scheduled_ns
    assert [r.scheduled_ns - first_ns for r in records] == [i * 20_000_000 for i in range(60)]
    for record in records:
        assert record.exchange.status == "ok"
        assert record.exchange.sent_ns is not None
        assert record.exchange.sent_ns >= record.scheduled_ns
        check(record, truths[record.request_id])
    overlap = [r for r, later in pairwise(records) if r.exchange.end_ns > later.scheduled_ns]
    assert len(overlap) > 50, "open at the same time"
    result = folder.result()
    offered_s = result.metrics["offered_s"]
    assert offered_s is not None
    # Over the time from the first to the last that was sent; where a busy machine delayed so much
    # that few tokens are of that time, to the last token.
    sent = [record.exchange.sent_ns or 0 for record in records]
    last_token_ns = max(record.last_token_ns or 0 for record in records)
    spans_s = [(end_ns - min(sent)) / 1e9 for end_ns in (max(sent), last_token_ns)]
    assert any(60 / offered_s == pytest.approx(span_s) for span_s in spans_s)
    assert result.metrics["lane_occupancy"] is None
