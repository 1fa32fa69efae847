"""Metrics pages as engines have them, and whatever else may answer at that address."""

from __future__ import annotations

import gzip
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from inferometer.core import EngineTotals, MetricsReport
from inferometer.engine.ask import page
from inferometer.engine.simulated.assembly import assemble
from inferometer.engine.simulated.options import parse_options
from inferometer.engine.simulated.telemetry import Telemetry
from inferometer.observe import engine_metrics
from inferometer.observe.engine_metrics import (
    MAX_PAGE_BYTES,
    NoPage,
    Scrape,
    Scraper,
    Watcher,
    page_text,
    totals,
)
from webserver import Quiet, serving

PAGE = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0"} 3
# TYPE vllm:request_success_total counter
vllm:request_success_total{finished_reason="length"} 10
vllm:request_success_total{finished_reason="stop"} 2
# TYPE vllm:request_queue_time_seconds histogram
vllm:request_queue_time_seconds_bucket{le="+Inf"} 12
vllm:request_queue_time_seconds_sum 1.5
"""
TRT_PAGE = "# TYPE trtllm_num_requests_running gauge\ntrtllm_num_requests_running 5\n"
RUNNING = ("engine.running", "engine=vllm")


def scraped(url: str) -> tuple[Scrape | None, str | None]:
    """A page, and why there is none."""
    scraper = Scraper(url, page)
    return scraper.scrape(), scraper.report().problem


def given(**values: float) -> Scrape:
    series = {(f"engine.{name}", "engine=vllm"): value for name, value in values.items()}
    return Scrape(0, 0.0, series, "", True)


def test_totals_are_differences_and_what_is_absent_is_unknown() -> None:
    first, last = given(requests=3), given(requests=10, prompt_tokens=50)
    assert totals(first, last) == EngineTotals(7, 50, None, None)
    assert totals(None, last) is None
    assert totals(first, None) is None


def test_a_counter_that_fell_says_nothing() -> None:
    assert totals(given(requests=10), given(requests=3)) == EngineTotals(None, None, None, None)


@pytest.mark.parametrize("name", ["vllm", "sglang", "trt", "atom", "dynamo"])
def test_totals_of_every_engine(name: str) -> None:
    text = (Path(__file__).parent / "pages" / f"{name}.txt").read_text()
    zero = re.sub(r" [0-9.e+]+$", " 0", text, flags=re.MULTILINE)
    scraper = Scraper("", lambda url, timeout_s: (200, texts.pop(0).encode()))
    texts = [zero, text]
    requests = 4 if name == "sglang" else 12
    generated = 1504 if name == "sglang" else 1500
    expected = EngineTotals(requests, 1000, generated, None)
    assert totals(scraper.scrape(), scraper.scrape()) == expected


def test_the_lateness_of_the_built_in_engine() -> None:
    options = parse_options(["--model", "Qwen/Qwen3-8B", "--gpu", "h200"])
    telemetry = Telemetry(assemble(options), "m")
    scraper = Scraper("", lambda url, timeout_s: (200, telemetry.page()))
    first = scraper.scrape()
    for late_ms in (1, 2, 3):
        telemetry.late(late_ms * 1_000_000)
    counted = totals(first, scraper.scrape())
    assert counted is not None
    assert (counted.requests, counted.prompt_tokens, counted.generation_tokens) == (0, 0, 0)
    assert counted.lateness_p99_ms == pytest.approx(2.98)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<!DOCTYPE html>\n<html><body>Welcome</body></html>", "HTML instead of metrics"),
        (b'\n {"detail": "Not Found"}', "JSON instead of metrics"),
        (b"[]", "JSON instead of metrics"),
        (b"[" * 100_000, "not a metrics page"),
        (PAGE.encode()[:-4], "the page is cut short"),
        (b"\xe4\xf6\xfc 1\n", "not UTF-8 text"),
        (gzip.compress(PAGE.encode())[:-9], "the page is cut short"),
        (b"\x1f\x8bnothing", "not gzip"),
        (gzip.compress(b"#" * (MAX_PAGE_BYTES + 1)), "longer than"),
    ],
)
def test_what_is_no_page_says_what_it_is(body: bytes, reason: str) -> None:
    with pytest.raises(NoPage, match=reason):
        page_text(body)


def test_pages_in_other_forms_are_read() -> None:
    assert page_text(gzip.compress(PAGE.encode())) == PAGE
    assert page_text(PAGE.encode() + b"# EOF") == PAGE + "# EOF"
    assert page_text(b"") == ""


class Engine:
    """Answers by path, in memory; counts what it is asked."""

    def __init__(self, **answers: tuple[int, bytes] | OSError) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, url: str, timeout_s: float) -> tuple[int, bytes]:
        assert timeout_s == engine_metrics.TIMEOUT_S
        name = "other" if url.endswith("/prometheus/metrics") else "metrics"
        self.asked.append(name)
        answer = self.answers.get(name, (404, b""))
        if isinstance(answer, OSError):
            raise answer
        return answer


def test_the_other_place_is_tried_once_and_then_kept() -> None:
    engine = Engine(metrics=(200, b"[]"), other=(200, TRT_PAGE.encode()))
    scraper = Scraper("http://engine", engine)
    for _ in range(3):
        found = scraper.scrape()
        assert found is not None
        assert found.value("engine.running") == 5
    assert engine.asked == ["metrics", "other", "other", "other"]
    expected = MetricsReport("/prometheus/metrics", ("trt",), 3, 0, None)
    assert scraper.report() == expected


def test_where_there_is_no_page_it_is_not_asked_for_again() -> None:
    """Parsing JSON three times a second helps nobody."""
    engine = Engine(metrics=(200, b'{"a": 1}'))
    scraper = Scraper("http://engine", engine)
    assert [scraper.scrape() for _ in range(4)] == [None] * 4
    assert engine.asked == ["metrics", "other"]
    why = "/metrics: JSON instead of metrics; /prometheus/metrics: HTTP 404"
    assert scraper.report() == MetricsReport(None, (), 0, 1, why)


def test_a_page_that_fails_for_a_while_is_asked_for_again() -> None:
    engine = Engine(metrics=TimeoutError())
    scraper = Scraper("http://engine", engine)
    assert scraper.scrape() is None
    engine.answers["metrics"] = (503, b"")
    assert scraper.scrape() is None
    engine.answers["metrics"] = (200, PAGE.encode())
    assert scraper.scrape() is not None
    report = scraper.report()
    assert (report.path, report.pages, report.failed) == ("/metrics", 1, 2)
    assert report.problem is not None
    assert report.problem.startswith("/metrics: no answer within 2 s")
    assert engine.asked == ["metrics", "other", "metrics", "metrics"]


def test_an_engine_that_comes_back_with_html_is_not_given_up() -> None:
    engine = Engine(metrics=(200, PAGE.encode()))
    scraper = Scraper("http://engine", engine)
    assert scraper.scrape() is not None
    engine.answers["metrics"] = (200, b"<html>")
    assert scraper.scrape() is None
    engine.answers["metrics"] = (200, PAGE.encode())
    assert scraper.scrape() is not None
    assert scraper.report().problem == "/metrics: HTML instead of metrics"


ANSWERS = {
    "/huge/metrics": (200, PAGE.encode() + b"#" * (16 * 1024 * 1024)),
    "/good/metrics": (200, PAGE.encode()),
    "/html/metrics": (200, b"<!DOCTYPE html>\n<html><body>Welcome</body></html>"),
    "/json/metrics": (200, b'{"detail": "Not Found"}'),
    "/latin/metrics": (200, b"\xe4\xf6\xfc 1"),
    "/braces/metrics": (200, b"vllm:prompt_tokens{, =## : }a}\n"),
    "/broken/metrics": (500, PAGE.encode()),
}


class Pages(Quiet):
    """Answers by path."""

    def answer(self) -> tuple[int, bytes]:
        return ANSWERS.get(self.path, (404, b"not found"))


@pytest.fixture(scope="module")
def pages() -> Iterator[str]:
    with serving(Pages) as at:
        yield at


@pytest.fixture
def url(pages: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where they are. None is late, however busy the machine is."""
    monkeypatch.setattr(engine_metrics, "TIMEOUT_S", 60.0)
    return pages


@pytest.mark.sockets
def test_a_page_is_scraped(url: str) -> None:
    before_ns = time.monotonic_ns()
    found, problem = scraped(f"{url}/good")
    assert found is not None
    assert problem is None
    assert found.text == PAGE
    assert found.values[RUNNING] == 3
    assert before_ns < found.at_ns < time.monotonic_ns()
    assert 0 < found.took_s < (time.monotonic_ns() - before_ns) / 1e9


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("html", "HTML instead"),
        ("json", "JSON instead"),
        ("latin", "not UTF-8"),
        ("braces", "not a metrics page"),
        ("broken", "HTTP 500"),
        ("huge", "longer than"),
        ("nowhere", "HTTP 404"),
    ],
)
def test_what_is_no_page_is_none(url: str, place: str, reason: str) -> None:
    found, problem = scraped(f"{url}/{place}")
    assert found is None
    assert problem is not None
    assert reason in problem


@pytest.mark.sockets
def test_a_proxy_of_the_environment_is_passed_by(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert scraped(f"{url}/good")[0] is not None


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
        found, problem = scraped(url)
        assert found is None
        assert problem


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
        assert scraped(f"http://127.0.0.1:{listener.getsockname()[1]}")[0] is None
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.sockets
def test_nobody_there_is_none() -> None:
    with socket.socket() as probe:  # bound and not listening: the port is refused, and stays ours
        probe.bind(("127.0.0.1", 0))
        assert scraped(f"http://127.0.0.1:{probe.getsockname()[1]}")[0] is None


def test_a_watcher_brackets_what_it_watches() -> None:
    enough = threading.Event()
    asked: list[bool] = []

    def read(histograms: bool) -> Scrape | None:
        asked.append(histograms)
        if len(asked) == 3:
            return None  # one page that could not be read leaves a gap, no more
        if len(asked) == 11:
            enough.set()
        return Scrape(len(asked), 0.01, {RUNNING: float(len(asked))}, str(len(asked)), histograms)

    watcher = Watcher(read, 0.001)
    assert watcher.samples == []
    watcher.start()
    assert watcher.first is not None
    assert watcher.first.text == "1"
    assert enough.wait(60)
    watcher.stop()
    seen = len(asked)
    assert watcher.last is not None
    assert watcher.last.text == str(seen)
    read_at = [n for n in range(1, seen + 1) if n != 3]
    running = [(s.at_ns, s.value) for s in watcher.samples if s.name == "engine.running"]
    assert running == [(n, float(n)) for n in read_at]
    full = [s.at_ns for s in watcher.samples if s.labels == "with=histograms"]
    assert full[0] == 1
    assert full[-1] == seen
    assert 10 in full
    assert full == [n for n in read_at if asked[n - 1]]
    assert not any(thread.name == "metrics" for thread in threading.enumerate())


def test_a_watcher_that_is_stopped_at_once_has_two_pages() -> None:
    asked: list[bool] = []
    watcher = Watcher(lambda histograms: asked.append(histograms), 60.0)
    watcher.start()
    watcher.stop()
    assert asked == [True, True]
    assert watcher.samples == []
    assert (watcher.first, watcher.last) == (None, None)


def test_a_page_that_is_renewed_by_a_clock_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    atom = (Path(__file__).parent / "pages" / "atom.txt").read_bytes()
    scraper = Scraper("", lambda url, timeout_s: (200, atom))
    watcher = Watcher(scraper.scrape, 60.0, lambda: scraper.refresh_s)
    watcher.start()
    assert slept == [5.0]
    watcher.stop()
    assert slept == [5.0, 5.0]
    assert [s.name for s in watcher.samples].count("engine.running") == 3
    assert watcher.first is not None


def test_pages_are_asked_for_without_their_histograms_most_of_the_time() -> None:
    scraper = Scraper("", lambda url, timeout_s: (200, PAGE.encode()))
    short, full = scraper.scrape(False), scraper.scrape(True)
    assert short is not None
    assert full is not None
    assert {name for name, _ in full.values} - {name for name, _ in short.values} == {
        "engine.queue_time_s",
        "engine.queue_time_s_sum",
    }
    assert len(full.samples()) == len(short.samples()) + 2
