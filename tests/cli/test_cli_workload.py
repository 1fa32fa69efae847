"""`workload`: what each verb prints and writes, its exit codes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Said, call

REQUEST = {"t": 0, "type": "n", "in": 130, "out": 3, "hash_ids": [0, 1], "api_time": 2.0}


def trace(name: str, *requests: dict[str, object], **more: object) -> dict[str, object]:
    rows = list(requests) or [REQUEST, {**REQUEST, "t": 9}]
    return {"id": name, "block_size": 64, "hash_id_scope": "local", "requests": rows, **more}


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    folder = tmp_path / "traces"
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}.json").write_text(json.dumps(trace(f"s{number}")))
    return folder


def spoil(folder: Path) -> None:
    """Three bad files beside the six: a time, a hash list, and one cut short."""
    late = trace("bad", {**REQUEST, "t": -1}, {**REQUEST, "hash_ids": [1]})
    (folder / "7.json").write_text(json.dumps(late))
    (folder / "8.json").write_text(json.dumps(trace("cut"))[:-9])
    (folder / "9.json").write_text(json.dumps(trace("other", block_size=32)))


def read(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_sound_sessions_validate(traces: Path) -> None:
    said = call("workload", "validate", traces)
    assert (said.code, said.err) == (0, "")
    assert said.out == f"{traces}: 6 sound sessions, 12 turns (6 weka)\n"


def test_what_a_rule_covers_is_a_warning(traces: Path) -> None:
    rows = {**REQUEST, "out": 0, "hash_ids": [0, 1, 2], "mood": 1}, {**REQUEST, "t": 9, "in": 150}
    (traces / "6.json").write_text(json.dumps(trace("w", *rows)))
    said = call("workload", "validate", traces, "--max-context", "140")
    assert said.code == 0
    assert said.out.splitlines()[1:] == [
        "  1 requests have an id for their partial last block; it is dropped",
        "  1 requests were recorded without output; one token is asked for",
        "  1 times a field that the format does not have so: requests[].mood",
        "  1 turns exceed 140 tokens, input and output together",
    ]


def test_what_is_wrong_is_counted_and_told(traces: Path) -> None:
    spoil(traces)
    said = call("workload", "validate", traces)
    assert said.code == 2
    assert said.out.startswith(f"{traces}: 6 sound sessions")
    told = [line.replace(f"error: {traces}/", "") for line in said.err.splitlines()]
    assert told[0] == "7.json: requests[0].t: expected a number of seconds in [0, 2e9], got -1"
    assert told[1].startswith("7.json: requests[1].hash_ids: expected 2 or 3 ids for 130 tokens")
    assert told[2].startswith("8.json:1: not valid JSON at column ")
    assert told[3].startswith("9.json: requests[0].hash_ids: expected 4 or 5 ids for 130")
    assert told[-1] == (
        "error: 5 problems in 3 sessions; 6 are sound and can be used alone with --skip-bad"
    )


def test_the_rest_is_usable_on_request(traces: Path, tmp_path: Path) -> None:
    spoil(traces)
    assert call("workload", "convert", traces, "--out", tmp_path / "a.jsonl").code == 2
    assert list(tmp_path.glob("*.part")) == list(tmp_path.glob(".*")) == []
    said = call("workload", "convert", traces, "--out", tmp_path / "a.jsonl", "--skip-bad")
    assert said.code == 0
    assert len(read(tmp_path / "a.jsonl")) == 7
    assert "3 sessions were left out for their problems" in said.out
    assert said.err.count("warning: ") == 5
    assert call("workload", "validate", traces, "--skip-bad").code == 0
    assert call("workload", "inspect", f"{traces}?skip_bad=yes").code == 0


def test_json_for_machines(traces: Path) -> None:
    found = json.loads(call("workload", "validate", traces, "--format", "json").out)
    assert (found["ok"], found["counts"]["turns"], found["problems"]) == (True, 12, [])
    spoil(traces)
    said = call("workload", "validate", traces, "--format", "json")
    found = json.loads(said.out)
    assert (said.code, found["ok"], found["problems_found"]) == (2, False, 5)
    assert found["problems"][2]["file"].endswith("8.json")
    assert (found["problems"][2]["line"], found["problems"][0]["field"]) == (1, "requests[0].t")


def test_inspect_prints_tables_and_writes_a_page(traces: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    said = call("workload", "inspect", traces, "--page", page, "--lanes", "2")
    assert said.code == 0
    for text in ("turns a session", "theoretical prefix hit", "49.23%", "2 sessions side by side"):
        assert text in said.out
    assert "What a prefix cache would hold" in page.read_text()
    found = json.loads(call("workload", "inspect", traces, "--format", "json").out)
    assert found["inspection"]["reuse"]["hits"] == [{"tokens": None, "hit": 128 * 6 / (130 * 12)}]


def test_inspect_takes_whatever_a_workload_may_be(traces: Path) -> None:
    for source in ("synthetic:quickstart", "chat:turns=3,isl=50,osl=20", f"weka:{traces}"):
        said = call("workload", "inspect", source, "--format", "json")
        assert said.code == 0
        assert json.loads(said.out)["inspection"]["sessions"] > 5


def test_what_is_converted_replays_the_same(traces: Path, tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.jsonl.gz", "a.jsonl.zst"):
        out = tmp_path / name
        assert call("workload", "convert", traces, "--out", out).code == 0
        again = tmp_path / f"again-{name}.jsonl"
        assert call("workload", "convert", out, "--out", again).code == 0
        assert [row.get("id") for row in read(again)] == [None, *(f"s{n}" for n in range(6))]
    assert (tmp_path / "again-a.jsonl.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()


def test_a_file_is_not_overwritten_unasked(traces: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    out.write_text("mine")
    said = call("workload", "convert", traces, "--out", out)
    assert (said.code, out.read_text()) == (2, "mine")
    assert said.err == f"error: {out}: exists; --force overwrites it\n"
    assert call("workload", "convert", traces, "--out", out, "--force").code == 0
    assert len(read(out)) == 7


def sampled(traces: Path, out: Path, *words: str) -> Said:
    return call("workload", "sample", traces, "--out", out, "--force", *words)


def test_a_sample_is_the_same_for_a_seed(traces: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    assert sampled(traces, out, "--sessions", "3", "--seed", "5").code == 0
    first = read(out)
    assert len(first) == 4
    sampled(traces, out, "--sessions", "3", "--seed", "5")
    assert read(out) == first
    assert sampled(traces, out, "--sessions", "30").err == (
        "warning: only 6 sessions pass the filters\n"
    )


def test_a_sample_of_nothing_is_refused(traces: Path, tmp_path: Path) -> None:
    said = sampled(traces, tmp_path / "a.jsonl", "--max-context", "132")
    assert (said.code, said.err) == (2, f"error: {traces}: no session passes the filters\n")
    assert not (tmp_path / "a.jsonl").exists()
    assert sampled(traces, tmp_path / "a.jsonl", "--max-context", "133").code == 0


def test_a_profile_is_calibrated_and_used(traces: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.yaml"
    assert call("workload", "calibrate", traces, "--out", out, "--name", "mine").code == 0
    found = json.loads(
        call("workload", "inspect", f"synthetic:{out}?sessions=4", "--format", "json").out
    )
    assert (found["inspection"]["sessions"], found["inspection"]["turns"]) == (4, 8)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("validate", "synthetic:corpus"), "expected a path of traces, not a generator"),
        (("validate", "no/such"), "no/such: no such file or directory"),
        (("inspect", "synthetic:corpse"), "did you mean 'corpus'?"),
        (("inspect", "chat:turns=3"), "isl: missing; chat needs turns, system, isl, osl, gap_s"),
        (("inspct", "x"), "No such command 'inspct'"),
    ],
)
def test_mistakes_say_what_to_do(words: tuple[str, ...], told: str) -> None:
    said = call("workload", *words)
    assert said.code == 2
    assert told in said.err


def test_a_prediction_tells_once_what_was_decided_on_reading(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    rows = (
        '{"timestamp": 0, "input_length": 900, "output_length": 0}',
        '{"timestamp": 9, "input_length": 300000, "output_length": 5, "tier": 1}',
        '{"timestamp": -1, "input_length": 900, "output_length": 5}',
    )
    path.write_text("\n".join(rows))
    words = ("--concurrency", "1,2", "--requests", "2", "--warmup", "0", "--out", tmp_path / "run")
    said = call("predict", "--workload", f"{path}?skip_bad=yes", *words)
    head, *told = said.err.splitlines()
    assert head == f"{path}: 2 sound sessions, 2 turns (1 mooncake)"
    wanted = (
        "  1 requests were recorded without output; one token is asked for",
        "  2 requests have no block ids; they share nothing, except within a session",
        "  1 sessions were left out for their problems",
        "  1 times a field that the format does not have so: tier",
        "  1 turns exceed 262,144 tokens, input and output together; they are not sent",
    )
    assert [told.count(line) for line in wanted] == [1] * len(wanted)
    assert [line for line in told if line.startswith(f"warning: {path}:3: timestamp: ")]
