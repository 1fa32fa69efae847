"""The load process is asked whether sessions can be used: it reads them, who asks does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from examples import AGENTIC
from inferometer.errors import InputError
from inferometer.run.loadprocess import LoadProcess


def test_data_is_checked_where_it_is_sent_from(tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"timestamp": -1, "input_length": 5, "output_length": 1}\n')
    load = LoadProcess()
    try:
        with pytest.raises(InputError) as caught:
            load.check(replace(AGENTIC, sessions=str(bad)))
        (problem,) = caught.value.problems
        assert (problem.file, problem.line, problem.key) == (str(bad), 1, "timestamp")
        load.check(replace(AGENTIC, sessions="synthetic:quickstart?sessions=2"))
        assert load.poll(0) is None
    finally:
        load.close()
    with pytest.raises(OSError, match="closed"):
        load.check(AGENTIC)
