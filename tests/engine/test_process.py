"""Processes started, watched and ended, with shells for engines; and what `/v1/models` may say."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from shells import NOBODY, alive, engine, pids, says, until

from inferometer.engine import place, process
from inferometer.engine.ask import ServedModel, engine_version, get, page, served_models
from inferometer.engine.place import fill, held_port
from inferometer.engine.process import Command, EngineProcess
from inferometer.errors import EngineError, InputError
from referee import free_port


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last words are waited for however busy the machine is."""
    monkeypatch.setattr(process, "DRAIN_S", 60.0)


def test_the_site_fills_in_its_values() -> None:
    argv = ["serve", "{model_path}", "--port={port}", "{host}:{port}", "{other}", '{"a": 1}']
    site = {"port": "8000", "host": "127.0.0.1", "model_path": "/m"}
    filled = ["serve", "/m", "--port=8000", "127.0.0.1:8000", "{other}", '{"a": 1}']
    assert fill(argv, site) == filled


def test_a_port_beside_the_site_s_is_counted_from_it() -> None:
    assert fill(["{port+1}", "h:{port+10000}"], {"port": "8000"}) == ["8001", "h:18000"]
    assert fill(["{port+1}"], {"host": "h"}) == ["{port+1}"]


def test_a_free_port_can_be_listened_on() -> None:
    with socket.create_server(("127.0.0.1", free_port())) as listener:
        assert listener.getsockname()[1] > 1023


@pytest.fixture
def ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Those that are in use: of ten rows that this test has for itself, whoever else opens any."""
    taken: set[int] = set()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(place, "_is_free", lambda port: port not in taken)
    monkeypatch.setattr(place, "LAST", place.FIRST + 10 * place.STEP)
    return taken


def test_a_port_in_use_is_passed_by_with_all_that_stand_beside_it(ports: set[int]) -> None:
    first = place.FIRST
    ports.add(first + 3)
    with held_port(["{port}"]) as alone:
        assert alone == first
        with held_port(["{port}"]) as other:
            assert other == first + place.STEP, "two runs have the same port"
    with held_port(["{port+3}", "{port+1}"]) as beside:
        assert beside == first + place.STEP
    with held_port(["{port}"]) as again:
        assert again == first, "a port is given back"


def test_a_port_that_is_bound_on_one_address_is_not_free() -> None:
    """An engine that binds all of them would fail."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert not place._is_free(taken.getsockname()[1])


def test_what_another_user_holds_or_left_is_no_fault(ports: set[int], tmp_path: Path) -> None:
    """Theirs can be read and not written; what nobody may open is passed by."""
    folder = tmp_path / "inferometer-ports"
    with held_port([]):
        assert folder.stat().st_mode & 0o7777 == 0o1777
    left = folder / str(place.FIRST)
    left.chmod(0o444)
    with held_port([]) as port:
        assert port == place.FIRST
    left.unlink()
    left.symlink_to(left)
    with held_port([]) as port:
        assert port == place.FIRST + place.STEP
    assert not ports


def test_where_every_port_is_in_use_that_is_said(ports: set[int]) -> None:
    ports |= set(range(place.FIRST, place.LAST))
    with pytest.raises(EngineError, match=f"no free port between {place.FIRST} and {place.LAST}"):
        held_port([]).__enter__()


def test_its_output_is_kept_after_what_is_there_and_its_environment_is_ours_and_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "1")
    log = tmp_path / "server.log"
    log.write_text("before\n")
    with engine("echo $OURS $THEIRS; echo and errors >&2", log, THEIRS="2") as running:
        until(lambda: running.died() is not None, "it ends")
    assert log.read_text() == "before\n1 2\nand errors\n"


def test_inferometer_is_this_very_installation(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with EngineProcess(
        Command("engine", ["inferometer", "--version"], {"PATH": ""}), log, NOBODY
    ) as running:
        until(lambda: running.died() is not None, "it ends")
    assert "inferometer, version" in log.read_text()


def test_what_cannot_be_started_is_an_engine_error(tmp_path: Path) -> None:
    missing = EngineProcess(Command("engine", ["/no/such/engine"]), tmp_path / "log", NOBODY)
    with pytest.raises(EngineError, match="cannot start '/no/such/engine': No such file"):
        missing.start()
    missing.stop()
    assert missing.died() is None


@pytest.mark.parametrize(
    ("script", "how"),
    [
        ("exit 3", "the engine ended with exit code 3; its log is empty"),
        ("kill -KILL $$", "the engine was killed by signal 9; its log is empty"),
        (
            "for n in 1 2 3 4 5 6 7; do echo; echo line $n; done; exit 1",
            "the engine ended with exit code 1; its log ends: "
            "line 3 | line 4 | line 5 | line 6 | line 7",
        ),
    ],
)
def test_a_death_is_told_with_its_last_words(tmp_path: Path, script: str, how: str) -> None:
    with engine(script, tmp_path / "log") as running:
        until(lambda: running.died() is not None, "it ends")
        assert running.died() == how
        with pytest.raises(EngineError) as error:
            running.wait_ready(60, lambda: None)
        assert str(error.value) == how


def test_what_runs_has_not_died_and_is_ended_at_the_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with engine("echo pid $$; exec sleep 60", log) as running:
        until(says(log, "pid"), "it starts")
        assert running.died() is None
        (pid,) = pids(log)
        assert alive(pid)
    assert not alive(pid)
    running.stop()  # again does nothing


Answers = dict[str, tuple[int, bytes]]


class Server(ThreadingHTTPServer):
    """Answers by path with a status and a body; keeps the headers that it was sent."""

    answers: Answers
    asked: list[tuple[str, str | None]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers["Authorization"]))
        status, body = self.server.answers.get(self.path, (404, b""))
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", body.decode())
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return None


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server(("127.0.0.1", 0), Handler)
    running.answers, running.asked = {}, []
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


MODELS = b'{"object": "list", "data": [{"id": "m", "max_model_len": 4096}, {"id": "n"}]}'


@pytest.mark.sockets
def test_the_models_that_are_served(server: Server) -> None:
    server.answers["/v1/models"] = (200, MODELS)
    assert served_models(server.url) == [ServedModel("m", 4096), ServedModel("n", None)]
    assert server.asked == [("/v1/models", None)]


@pytest.mark.sockets
@pytest.mark.parametrize("limit", ["true", "0", "-1", '"4096"', "4096.0", "null", "[]", "1e300"])
def test_a_context_limit_that_is_none_is_unknown(server: Server, limit: str) -> None:
    body = b'{"data": [{"id": "m", "max_model_len": %b}]}' % limit.encode()
    server.answers["/v1/models"] = (200, body)
    assert served_models(server.url) == [ServedModel("m", None)]


@pytest.mark.sockets
def test_llama_cpp_tells_the_context_of_a_slot(server: Server) -> None:
    server.answers["/v1/models"] = (200, b'{"data": [{"id": "m", "meta": {"n_ctx": 1024}}]}')
    assert served_models(server.url) == [ServedModel("m", 1024)]


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("path", "body", "version"),
    [
        ("/version", b'{"version": "0.26.0"}', "0.26.0"),
        ("/server_info", b'{"version": "0.5.17", "tp_size": 8}', "0.5.17"),
        ("/props", b'{"build_info": "b11434-abc"}', "b11434-abc"),
        ("/version", b"<html>", None),
        ("/version", b'{"version": 3}', None),
        ("/version", b"[]", None),
        ("/version", b'{"version": "%b"}' % (b"9" * 200), None),
        ("/version", b'{"version": "a\\nb"}', None),
    ],
)
def test_the_version_that_an_engine_tells(
    server: Server, path: str, body: bytes, version: str | None
) -> None:
    server.answers[path] = (200, body)
    assert engine_version(server.url) == version


@pytest.mark.sockets
def test_an_api_key_that_cannot_be_sent_is_the_users_mistake(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk\nsecret")
    with pytest.raises(InputError) as caught:
        served_models(server.url)
    assert str(caught.value) == "OPENAI_API_KEY: must be one line of ASCII"
    assert server.asked == []


@pytest.mark.sockets
def test_the_api_key_goes_along(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answers["/v1/models"] = (200, MODELS)
    monkeypatch.setenv("OPENAI_API_KEY", " sk-1\n")
    assert len(served_models(server.url)) == 2
    assert server.asked == [("/v1/models", "Bearer sk-1")]


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (401, b"{}", "answered HTTP 401"),
        (500, MODELS, "answered HTTP 500"),
        (302, b"/elsewhere", "answered HTTP 302"),
        (200, b"<html>", "is no model list"),
        (200, b"[]", "is no model list"),
        (200, b'{"data": 5}', "is no model list"),
        (200, b'{"data": [{"name": "m"}]}', "is no model list"),
        (200, b'{"data": ["m"]}', "is no model list"),
        (200, b"\xff", "is no model list"),
        (200, b"[" * 100_000, "is no model list"),
        (200, b" " * (16 * 1024 * 1024 + 1), "no answer .the answer is longer than 16777216 bytes"),
    ],
)
def test_what_is_no_engine_is_an_engine_error(
    server: Server, status: int, body: bytes, why: str
) -> None:
    server.answers = {"/v1/models": (status, body), "/elsewhere": (200, MODELS)}
    with pytest.raises(EngineError, match=f"^{server.url}/v1/models: .*{why}"):
        served_models(server.url, 60.0)


def test_nobody_there_is_an_engine_error_in_plain_words() -> None:
    with pytest.raises(EngineError) as error:
        served_models(NOBODY)
    assert str(error.value) == f"{NOBODY}/v1/models: no answer (Connection refused)"


@contextmanager
def trickling(first: bytes) -> Iterator[str]:
    """Says this much, and then a byte every 10 ms for as long as anybody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def trickle() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.sendall(first)
                while True:
                    connection.sendall(b"x")
                    time.sleep(0.01)

        thread = threading.Thread(target=trickle)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(20)
        assert not thread.is_alive(), "somebody still listens"


LONG = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\n"


@pytest.mark.sockets
@pytest.mark.parametrize("first", [LONG, UNTIL_CLOSE, b"HTTP/1.1 200 OK\r\nX-Long: "])
def test_an_answer_that_trickles_has_one_deadline(first: bytes) -> None:
    with (
        trickling(first) as url,
        pytest.raises(EngineError, match=r"no answer \(timed out\)"),
    ):
        served_models(url, 0.2)


@pytest.mark.sockets
def test_an_answer_cut_short_is_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def cut() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(LONG + b"x")

        thread = threading.Thread(target=cut)
        thread.start()
        with pytest.raises(http.client.IncompleteRead):
            page(f"http://127.0.0.1:{listener.getsockname()[1]}/metrics", 60.0)
        thread.join()


@pytest.mark.sockets
def test_a_proxy_of_the_environment_is_passed_by(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, NOBODY)
    server.answers["/health"] = (200, b"")
    with get(f"{server.url}/health", 60.0) as answer:
        assert answer.status == 200


@pytest.mark.sockets
def test_it_is_ready_when_it_is_healthy_and_serves_a_model(server: Server, tmp_path: Path) -> None:
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        ticks += 1
        if ticks == 2:
            server.answers |= {"/health": (200, b""), "/v1/models": (200, MODELS)}

    server.answers["/health"] = (503, b"")
    with engine("exec sleep 60", tmp_path / "log", server.url) as running:
        running.wait_ready(60, tick)
    assert ticks == 2


@pytest.mark.sockets
def test_it_is_not_ready_in_time(server: Server, tmp_path: Path) -> None:
    server.answers["/health"] = (503, b"")
    log = tmp_path / "log"
    with engine("echo loading weights; exec sleep 60", log, server.url) as running:
        until(says(log, "weights"), "it starts")
        with pytest.raises(EngineError) as error:
            running.wait_ready(0.2, lambda: None)
    assert str(error.value) == ("the engine was not ready in 0.2 s; its log ends: loading weights")


@pytest.mark.sockets
def test_an_engine_without_a_model_is_not_ready(server: Server, tmp_path: Path) -> None:
    server.answers = {"/health": (200, b""), "/v1/models": (200, b'{"data": []}')}
    with (
        engine("exec sleep 60", tmp_path / "log", server.url) as running,
        pytest.raises(EngineError, match=r"not ready in 0.2 s; .*/v1/models lists no model; its"),
    ):
        running.wait_ready(0.2, lambda: None)


@pytest.mark.sockets
def test_a_front_end_is_ready_when_its_workers_have_come(server: Server, tmp_path: Path) -> None:
    """It is healthy before, and its list fails, then is empty."""
    lists = iter([(503, b""), (200, b'{"data": []}'), (200, MODELS)])
    server.answers = {"/health": (200, b""), "/v1/models": next(lists)}

    def tick() -> None:
        server.answers["/v1/models"] = next(lists)

    with engine("exec sleep 60", tmp_path / "log", server.url) as running:
        running.wait_ready(60, tick)
    assert list(lists) == []


@pytest.mark.sockets
def test_somebody_elses_answer_is_not_taken_for_the_engines(server: Server, tmp_path: Path) -> None:
    """Its port was taken meanwhile, so that it ended."""
    server.answers = {"/health": (200, b""), "/v1/models": (200, MODELS)}
    with engine("echo address in use; exit 1", tmp_path / "log", server.url) as running:
        until(lambda: running.died() is not None, "it ends")
        with pytest.raises(EngineError, match=r"another process answers at .*address in use"):
            running.wait_ready(60, lambda: None)
