"""Whether an engine has ended with its load: its keeper's word may come after the load's."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any, cast

import pytest

from inferometer.run.engines import ExternalEngine
from inferometer.run.point import _death
from referee import refused_port


def engine(port: int, *words: str | None) -> Any:
    """Says these when it is asked whether it died."""
    said = iter(words)
    return cast(Any, SimpleNamespace(base_url=f"http://127.0.0.1:{port}", died=lambda: next(said)))


def test_where_nobody_listens_the_word_of_the_end_is_waited_for() -> None:
    with refused_port() as port:
        assert _death(engine(port, None, None, "the engine ended")) == "the engine ended"


def test_of_somebody_elses_engine_no_word_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferometer.run.point.time.monotonic", lambda: pytest.fail("it waits"))
    with refused_port() as port:
        assert _death(ExternalEngine(f"http://127.0.0.1:{port}")) is None


def test_what_listens_lives_and_is_asked_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert _death(engine(listener.getsockname()[1], None)) is None
