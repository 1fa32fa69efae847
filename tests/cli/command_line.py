"""The command line called as a shell would, in this process: its code and what it wrote."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pytest

from inferometer.cli import main


@dataclass(frozen=True)
class Said:
    """What a call came to. A traceback would have left as an exception."""

    code: int
    out: str
    err: str


def call(*words: str | Path) -> Said:
    """`inferometer WORDS`."""
    out, err = io.StringIO(), io.StringIO()
    argv = ["inferometer", *map(str, words)]
    with (
        patch.object(sys, "argv", argv),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as end,
    ):
        main()
    code = end.value.code or 0
    assert isinstance(code, int)
    return Said(code, out.getvalue(), err.getvalue())


SMALL = (
    *("--model", "Qwen/Qwen3-8B", "--gpu", "h200", "--tp", "1", "--isl", "256", "--osl", "16"),
    *("--requests", "100", "--warmup", "1", "--concurrency", "1,2"),
)
"""A prediction of two points that takes no time."""
