"""What is set for our own libraries reaches our own processes, and no engine."""

from __future__ import annotations

import os

import click
import pytest

from inferometer.cli.main import cli
from inferometer.load.bare import UNTHREADED, own_env


def test_a_verb_leaves_the_environment_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in UNTHREADED:
        monkeypatch.delenv(name, raising=False)
    before = dict(os.environ)
    assert cli.get_command(click.Context(cli), "bench") is not None
    assert dict(os.environ) == before


def test_a_verb_keeps_what_a_person_has_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in UNTHREADED:
        monkeypatch.setenv(name, "7")
    cli.get_command(click.Context(cli), "bench")
    assert [os.environ[name] for name in UNTHREADED] == ["7"]
    assert own_env().items() >= dict.fromkeys(UNTHREADED, "7").items()


def test_our_own_processes_make_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in UNTHREADED:
        monkeypatch.delenv(name, raising=False)
    assert own_env().items() >= UNTHREADED.items()
