"""A container's processes are no descendants of the command that runs it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from inferometer.observe.containers import first_processes


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """10 runs a container, 11 another program with the same words, 900 is in the container."""
    lines = {
        "10": [
            "/usr/bin/docker",
            "run",
            "--rm",
            "--name",
            "inferometer-engine-ab",
            "image",
            "vllm",
        ],
        "11": ["python", "run", "--name", "inferometer-engine-cd"],
        "12": ["podman", "run", "--name=inferometer-router-ef", "image"],
        "13": ["docker", "ps"],
        "900": ["vllm"],
        "901": ["router"],
    }
    for pid, words in lines.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cmdline").write_bytes(b"\0".join(w.encode() for w in words) + b"\0")
    return tmp_path


def test_the_runtime_is_asked_for_the_first_process(proc: Path) -> None:
    asked: list[Sequence[str]] = []

    def ask(argv: Sequence[str]) -> str:
        asked.append(argv)
        return "900\n" if argv[-1] == "inferometer-engine-ab" else "901\n"

    assert first_processes([10, 11, 12, 13, 404], proc, ask) == {900, 901}
    assert asked == [
        ["/usr/bin/docker", "inspect", "--format", "{{.State.Pid}}", "inferometer-engine-ab"],
        ["podman", "inspect", "--format", "{{.State.Pid}}", "inferometer-router-ef"],
    ]


@pytest.mark.parametrize("told", ["0\n", "", "no such container\n", "7777\n", "-5\n", "1\n"])
def test_a_container_that_has_ended_or_is_elsewhere_has_none(proc: Path, told: str) -> None:
    assert first_processes([10], proc, lambda _: told) == set()


def test_a_runtime_that_fails_has_none(proc: Path) -> None:
    def ask(_: Sequence[str]) -> str:
        raise OSError("permission denied")

    assert first_processes([10], proc, ask) == set()
