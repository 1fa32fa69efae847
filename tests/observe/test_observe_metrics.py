"""Metrics pages as engines have them, and whatever else may answer at that address."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.core import EngineTotals
from inferometer.engine.ask import page
from inferometer.engine.simulated.assembly import assemble
from inferometer.engine.simulated.options import parse_options
from inferometer.engine.simulated.telemetry import Telemetry
from inferometer.observe import engine_metrics
from inferometer.observe.engine_metrics import GAUGES, Scrape, Watcher, parse, scrape, totals
from webserver import Quiet, serving

PAGE = """\
# HELP vllm:num_requests_running Running.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0"} 3
vllm:num_requests_running{engine="1"} 4
# TYPE vllm:request_success_total counter
vllm:request_success_total{finished_reason="length"} 10
vllm:request_success_total{finished_reason="stop"} 2
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total 1.2e3
# TYPE late summary
late{quantile="0.5"} 0.001
late{quantile="0.99"} 0.004
late_count 7
late_sum 0.02
"""


def test_a_sample_is_summed_over_its_labels_and_a_quantile_is_not() -> None:
    page = parse(PAGE, 5)
    assert page.at_ns == 5
    assert page.values == {
        "vllm:num_requests_running": 7,
        "vllm:request_success_total": 12,
        "vllm:generation_tokens_total": 1200,
        'late{quantile="0.5"}': 0.001,
        'late{quantile="0.99"}': 0.004,
        "late_count": 7,
        "late_sum": 0.02,
    }


def test_a_page_of_a_real_engine(shared_data: Path) -> None:
    """vLLM after 644 requests; each value is one that can be read in the file."""
    text = (shared_data / "h200-vllm" / "metrics.txt").read_text()
    values = parse(text, 0).values
    assert set(GAUGES) <= set(values)
    assert values["vllm:request_success_total"] == 644
    assert values["vllm:prompt_tokens_total"] == 657_420
    assert values["vllm:generation_tokens_total"] == 164_448
    assert values["vllm:prefix_cache_hits_total"] == 262_000
    before = Scrape(0, {"vllm:prompt_tokens_total": 657_000.0})
    assert totals(before, parse(text, 1)) == EngineTotals(644, 420, 164_448, None)


def test_the_page_of_the_built_in_engine() -> None:
    options = parse_options(["--model", "Qwen/Qwen3-8B", "--gpu", "h200"])
    telemetry = Telemetry(assemble(options), "m")
    first = parse(telemetry.page().decode(), 0)
    assert set(GAUGES) <= set(first.values)
    for late_ms in (1, 2, 3):
        telemetry.late(late_ms * 1_000_000)
    counted = totals(first, parse(telemetry.page().decode(), 1))
    assert counted is not None
    assert (counted.requests, counted.prompt_tokens, counted.generation_tokens) == (0, 0, 0)
    assert counted.lateness_p99_ms == pytest.approx(2.98)


def test_totals_are_differences_and_what_is_absent_is_unknown() -> None:
    first = Scrape(0, {"vllm:request_success_total": 3.0})
    last = Scrape(1, {"vllm:request_success_total": 10.0, "vllm:prompt_tokens_total": 50.0})
    assert totals(first, last) == EngineTotals(7, 50, None, None)
    assert totals(None, last) is None
    assert totals(first, None) is None


@given(st.text(alphabet='{}"=\\ ,#a:_1\n', max_size=60) | st.text(max_size=40))
def test_text_that_is_no_page_is_a_value_error_at_most(text: str) -> None:
    try:
        values = parse(text, 0).values
    except ValueError:
        return
    assert all(isinstance(value, float) for value in values.values())


def test_what_is_not_finite_is_left_out() -> None:
    text = 'a NaN\nb{x="1"} 1\nb{x="2"} +Inf\nc -Inf\nd{x="1"} 1e308\nd{x="2"} 1e308\ne 5\n'
    assert parse(text, 0).values == {"e": 5}
    low = Scrape(0, {"vllm:request_success_total": -1.5e308})
    high = {"vllm:request_success_total": 1.5e308, engine_metrics.LATENESS_P99: 1e308}
    assert totals(low, Scrape(1, high)) == EngineTotals(None, None, None, None)


ANSWERS = {
    "/huge/metrics": (200, PAGE.encode() + b"#" * (16 * 1024 * 1024)),
    "/good/metrics": (200, PAGE.encode()),
    "/html/metrics": (200, b"<!DOCTYPE html>\n<html><body>Welcome</body></html>"),
    "/json/metrics": (200, b'{"detail": "Not Found"}'),
    "/latin/metrics": (200, b"\xe4\xf6\xfc 1"),
    "/braces/metrics": (200, b":{, =## : }a}\n"),
    "/broken/metrics": (500, PAGE.encode()),
}


class Pages(Quiet):
    """Answers by path."""

    def answer(self) -> tuple[int, bytes]:
        return ANSWERS.get(self.path, (404, b"not found"))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(Pages) as at:
        yield at


@pytest.mark.sockets
def test_a_page_is_scraped(url: str) -> None:
    before_ns = time.monotonic_ns()
    found = scrape(f"{url}/good", page)
    assert found is not None
    assert found.values == parse(PAGE, 0).values
    assert before_ns < found.at_ns < time.monotonic_ns()


@pytest.mark.sockets
@pytest.mark.parametrize("place", ["html", "json", "latin", "braces", "broken", "huge", "nowhere"])
def test_what_is_no_page_is_none(url: str, place: str) -> None:
    assert scrape(f"{url}/{place}", page) is None


@pytest.mark.sockets
def test_a_proxy_of_the_environment_is_passed_by(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert scrape(f"{url}/good", page) is not None


@contextmanager
def server_that_says(first: bytes) -> Iterator[str]:
    """Accepts, says this much, and then nothing more."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        held: list[socket.socket] = []

        def accept() -> None:
            connection, _ = listener.accept()
            held.append(connection)
            connection.sendall(first)

        thread = threading.Thread(target=accept)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()
        for connection in held:
            connection.close()


@pytest.mark.sockets
@pytest.mark.parametrize(
    "first", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nvllm:", b"SSH-2.0-x\r\n"]
)
def test_a_server_that_hangs_or_talks_otherwise_is_none(
    first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_metrics, "TIMEOUT_S", 0.1)
    with server_that_says(first) as url:
        assert scrape(url, page) is None


@pytest.mark.sockets
@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nX-Long: "])
def test_a_page_that_trickles_is_none(head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte every 10 ms, for as long as anybody listens."""
    monkeypatch.setattr(engine_metrics, "TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def trickle() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.sendall(head)
                while True:
                    connection.sendall(b"x")
                    time.sleep(0.01)

        thread = threading.Thread(target=trickle)
        thread.start()
        assert scrape(f"http://127.0.0.1:{listener.getsockname()[1]}", page) is None
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.sockets
def test_nobody_there_is_none() -> None:
    with socket.socket() as probe:  # bound and not listening: the port is refused, and stays ours
        probe.bind(("127.0.0.1", 0))
        assert scrape(f"http://127.0.0.1:{probe.getsockname()[1]}", page) is None


def test_a_watcher_collects_its_gauges_until_it_is_stopped() -> None:
    enough = threading.Event()
    asked: list[str] = []

    def read(url: str) -> Scrape | None:
        asked.append(url)
        if len(asked) == 2:
            return None  # one page that could not be read leaves a gap, no more
        if len(asked) == 4:
            enough.set()
        return Scrape(len(asked), {GAUGES[0]: float(len(asked)), "vllm:other": 1.0})

    watcher = Watcher("http://engine", 0.001, read)
    assert watcher.samples == []
    watcher.start()
    assert enough.wait(10)
    watcher.stop()
    seen = len(asked)
    assert set(asked) == {"http://engine"}
    assert [(s.at_ns, s.name, s.value) for s in watcher.samples] == [
        (n, GAUGES[0], float(n)) for n in range(1, seen + 1) if n != 2
    ]
    assert not any(thread.name == "metrics" for thread in threading.enumerate())
    assert len(asked) == seen, "it has ended"


def test_a_watcher_that_is_stopped_at_once_reads_nothing() -> None:
    watcher = Watcher("http://engine", 60.0, lambda _: pytest.fail("read too early"))
    watcher.start()
    watcher.stop()
    assert watcher.samples == []
