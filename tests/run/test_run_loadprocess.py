"""The load process is asked whether sessions can be used: it reads them, who asks does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from examples import AGENTIC
from inferometer.errors import InputError
from inferometer.run.loadprocess import LoadProcess, load_process


def test_data_is_checked_where_it_is_sent_from(tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"timestamp": -1, "input_length": 5, "output_length": 1}\n')
    load = LoadProcess()
    try:
        with pytest.raises(InputError) as caught:
            load.check(replace(AGENTIC, sessions=str(bad)), None)
        (problem,) = caught.value.problems
        assert (problem.file, problem.line, problem.key) == (str(bad), 1, "timestamp")
        made = replace(AGENTIC, sessions="synthetic:quickstart?sessions=2")
        assert load.check(made, None) == ()
        assert load.poll(0) is None
    finally:
        load.close()
    with pytest.raises(OSError, match="closed"):
        load.check(AGENTIC, None)


def test_what_was_decided_on_reading_comes_back(tmp_path: Path) -> None:
    odd = tmp_path / "odd.jsonl"
    odd.write_text(
        '{"timestamp": 0, "input_length": 900, "output_length": 0, "hash_ids": [1, 2]}\n'
        '{"timestamp": 1, "input_length": 70, "output_length": 50, "hash_ids": [], "kind": 1}\n'
    )
    with load_process() as load:
        load.prepare(1, str(odd), 42)  # as it is done before the settings are known
        told = load.check(replace(AGENTIC, sessions=str(odd)), 901)
        assert load.check(replace(AGENTIC, sessions=str(odd)), 902) == told
        beyond = load.check(replace(AGENTIC, sessions=str(odd)), 900)
    assert told[0] == f"{odd}: 2 sound sessions, 2 turns (1 mooncake)"
    assert any(line.startswith("  1 requests were recorded without output") for line in told)
    assert any("kind" in line for line in told)
    assert set(beyond) - set(told) == {
        "  1 turns exceed 900 tokens, input and output together; they are not sent"
    }


def test_bad_data_prepared_ahead_is_told_when_asked(tmp_path: Path) -> None:
    with load_process() as load:
        load.prepare(1, str(tmp_path / "missing"), 42)
        with pytest.raises(InputError, match="no such file"):
            load.check(replace(AGENTIC, sessions=str(tmp_path / "missing")), None)
