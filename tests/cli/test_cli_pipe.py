"""A reader that leaves early: nothing is said, and nothing is a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from command_line import SMALL, call


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    assert call("predict", *SMALL, "--out", out).code == 0
    return out


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_a_reader_that_has_left_hears_nothing(run: Path, form: str) -> None:
    argv = [sys.executable, "-m", "inferometer", "show", str(run), "--format", form]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=600)
    assert (process.returncode, err) == (1, b"")


def test_a_reader_of_one_line_gets_it(run: Path) -> None:
    argv = f'"{sys.executable}" -m inferometer show "{run}" --format csv | head -1'
    done = subprocess.run(argv, shell=True, capture_output=True, timeout=600, check=True)
    assert done.stderr == b""
    assert done.stdout.startswith(b"point,config,hardware,")
    assert done.stdout.count(b"\n") == 1


def test_a_mistake_leaves_stdout_empty(tmp_path: Path) -> None:
    """In a shell, where the streams are what they are."""
    argv = [sys.executable, "-m", "inferometer", "show", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, timeout=600, check=False)
    assert (done.returncode, done.stdout) == (4, b"")
    assert done.stderr.decode() == f"error: {tmp_path}: no run.json; not the directory of a run\n"
