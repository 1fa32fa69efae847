"""The first token: made, refused, waited for; a stop and a death meanwhile."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from shells import engine, says, until

from inferometer.engine.firsttoken import first_token
from inferometer.errors import EngineError, Interrupted

pytestmark = pytest.mark.sockets

MADE = b'{"choices": [{"text": "a"}]}'


class Answers(BaseHTTPRequestHandler):
    """Lists a model; makes a token as the server says, when it says so."""

    def do_GET(self) -> None:
        self._answer(200, b'{"data": [{"id": "m"}]}')

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.go_on.wait(60)  # type: ignore[attr-defined]
        self._answer(*self.server.made)  # type: ignore[attr-defined]

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(status: int, body: bytes, at_once: bool = True) -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.daemon_threads = True
        server.made = (status, body)  # type: ignore[attr-defined]
        server.go_on = threading.Event()  # type: ignore[attr-defined]
        if at_once:
            server.go_on.set()  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.go_on.set()  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()


def url_of(server: ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


def test_a_token_that_is_made_is_enough(tmp_path: Path) -> None:
    told: list[str] = []
    with (
        serving(200, MADE, at_once=False) as server,
        engine("exec sleep 60", tmp_path / "log", url_of(server)) as running,
    ):

        def tick(phase: str) -> None:
            told.append(phase)
            server.go_on.set()  # type: ignore[attr-defined]

        first_token(running, running, tick)
    assert re.fullmatch(r"waiting for its first token \(\d+ s\)", told[0])


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b"out of blocks"),
        (200, b"<html>welcome</html>"),
        (200, b'{"error": "busy"}'),
        (200, b'{"choices": []}'),
    ],
)
def test_what_is_no_token_is_told_with_the_engine_s_last_words(
    tmp_path: Path, status: int, body: bytes
) -> None:
    log = tmp_path / "log"
    script = "echo CUDA out of memory.; exec sleep 60"
    with serving(status, body) as server, engine(script, log, url_of(server)) as running:
        until(says(log, "memory"), "it starts")
        with pytest.raises(EngineError) as error:
            first_token(running, running, lambda _: None)
    assert f"no token generated: HTTP {status}: {body.decode()}" in str(error.value)
    assert "out of GPU memory (line 1" in str(error.value)


def test_a_death_is_heard_while_it_is_waited_for(tmp_path: Path) -> None:
    script = "echo CUDA out of memory.; exit 1"
    with (
        serving(200, MADE, at_once=False) as server,
        engine(script, tmp_path / "log", url_of(server)) as running,
        pytest.raises(EngineError, match=r"no token generated: the engine ended .*GPU memory"),
    ):
        first_token(running, running, lambda _: None)


def test_a_stop_is_heard_while_it_is_waited_for(tmp_path: Path) -> None:
    def stop(phase: str) -> None:
        raise Interrupted(phase)

    with (
        serving(200, MADE, at_once=False) as server,
        engine("exec sleep 60", tmp_path / "log", url_of(server)) as running,
        pytest.raises(Interrupted, match="waiting for its first token"),
    ):
        first_token(running, running, stop)
