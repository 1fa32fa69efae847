"""An engine's metrics page: read, mapped to our series, and watched while a point is measured.

Names come from `catalog.families`. Runs in a thread of the composing process, never in the one that
carries the load. What is absent gives no sample, what cannot be read leaves its reason, and neither
stops anything. Stamps are CLOCK_MONOTONIC, taken when the page had come.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from inferometer.core import EngineTotals, MetricsReport, Sample
from inferometer.observe.families import Families, page_families, read_series

TIMEOUT_S = 2.0
MAX_PAGE_BYTES = 16 * 1024 * 1024
INTERVAL_S = 1 / 3
HISTOGRAMS_EVERY = 9
"""Scrapes: three seconds. Buckets are most of the rows, and only their differences are used."""
PATHS = ("/metrics", "/prometheus/metrics")
"""The second is TensorRT-LLM's: its `/metrics` is JSON."""
SCRAPE_S = "engine.scrape_s"
"""Seconds that a page took; labelled where its histograms were read too."""
WITH_HISTOGRAMS = "with=histograms"
Read = Callable[[str, float], tuple[int, bytes]]


class NoPage(ValueError):
    """What answered is no metrics page; `final` where asking again can change nothing."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


@dataclass(frozen=True, slots=True)
class Scrape:
    """One page as our series: `(name, labels)` → value, names and labels as in samples."""

    at_ns: int
    took_s: float
    values: Mapping[tuple[str, str], float]
    text: str
    histograms: bool

    def value(self, name: str) -> float | None:
        """A series without tiers and buckets; None where the page has it not."""
        return next((v for (found, _), v in self.values.items() if found == name), None)

    def samples(self) -> list[Sample]:
        """The series as samples, and how long the page took."""
        kept = [Sample(self.at_ns, *key, value) for key, value in self.values.items()]
        labels = WITH_HISTOGRAMS if self.histograms else ""
        return [*kept, Sample(self.at_ns, SCRAPE_S, labels, self.took_s)]


class Scraper:
    """Reads the page of one engine again and again; remembers where it is and what it is called.

    `read` gives the status and the body of a URL within so many seconds; it raises OSError or
    HTTPException.
    """

    def __init__(self, base_url: str, read: Read) -> None:
        self._base_url = base_url
        self._read = read
        self._paths: tuple[str, ...] = PATHS
        self._families = Families()
        self._pages = 0
        self._failed = 0
        self._gave_up = False
        self._problem: str | None = None

    def scrape(self, histograms: bool = True) -> Scrape | None:
        """One page, with or without its histograms; None where none could be had: `report` says
        why.
        """
        if self._gave_up:
            return None
        reasons = []
        for path in self._paths:
            try:
                found = self._page(path, histograms)
            except NoPage as error:
                reasons.append((f"{path}: {error}", error.final))
            else:
                self._pages += 1
                self._paths = (path,)
                return found
        self._failed += 1
        if self._problem is None:
            self._problem = "; ".join(reason for reason, _ in reasons)
        self._gave_up = not self._pages and all(final for _, final in reasons)
        # The other place is tried once: an engine does not move its page.
        self._paths = self._paths[:1]
        return None

    @property
    def refresh_s(self) -> float:
        """How old what a page says may be."""
        return self._families.refresh_s

    def report(self) -> MetricsReport:
        """What was read, and what was not."""
        return MetricsReport(
            path=self._paths[0] if self._pages else None,
            engines=self._families.engines,
            pages=self._pages,
            failed=self._failed,
            problem=self._problem,
        )

    def _page(self, path: str, histograms: bool) -> Scrape:
        began_ns = time.monotonic_ns()
        text = self._text(path)
        at_ns = time.monotonic_ns()
        try:
            values = read_series(page_families(text, histograms=histograms), self._families)
        except ValueError as error:
            raise NoPage(f"not a metrics page ({error})") from None
        took_s = (time.monotonic_ns() - began_ns) / 1e9
        return Scrape(at_ns, took_s, values, text, histograms)

    def _text(self, path: str) -> str:
        try:
            status, body = self._read(f"{self._base_url}{path}", TIMEOUT_S)
        except (OSError, http.client.HTTPException) as error:
            raise NoPage(_words(error)) from None
        if status != 200:
            raise NoPage(f"HTTP {status}", final=status in (404, 405, 410, 501))
        return page_text(body)


def page_text(body: bytes) -> str:
    """The text of a metrics page. Raises NoPage for JSON, HTML, a page cut short or too large."""
    if body.startswith(b"\x1f\x8b"):
        body = _unpacked(body)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise NoPage("not UTF-8 text") from None
    start = text.lstrip()[:1]
    if start == "<":
        raise NoPage("HTML instead of metrics", final=True)
    if start in ("[", "{"):
        _check_json(text)
    if text.strip() and not text.endswith("\n") and not text.endswith("# EOF"):
        raise NoPage("the page is cut short")
    return text


def _check_json(text: str) -> None:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        raise NoPage("not a metrics page") from None
    raise NoPage("JSON instead of metrics", final=True)


def _unpacked(body: bytes) -> bytes:
    unzip = zlib.decompressobj(wbits=31)
    try:
        text = unzip.decompress(body, MAX_PAGE_BYTES)
    except zlib.error as error:
        raise NoPage(f"not gzip: {error}") from None
    if unzip.unconsumed_tail:
        raise NoPage(f"longer than {MAX_PAGE_BYTES} bytes")
    if not unzip.eof:
        raise NoPage("the page is cut short")
    return text


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT_S:g} s"
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__


def totals(before: Scrape | None, after: Scrape | None) -> EngineTotals | None:
    """Differences of the counters between two idle moments; None without both pages.

    A counter that is on the second page alone began at 0; one that fell says nothing.
    """
    if before is None or after is None:
        return None

    def difference(name: str) -> float | None:
        last, first = after.value(name), before.value(name) or 0.0
        return None if last is None or last < first else last - first

    late_s = after.value("engine.lateness_p99_s")
    return EngineTotals(
        requests=difference("engine.requests"),
        prompt_tokens=difference("engine.prompt_tokens"),
        generation_tokens=difference("engine.generation_tokens"),
        lateness_p99_ms=None if late_s is None else late_s * 1e3,
    )


class Watcher:
    """Scrapes in a thread, at `interval_s`, until stopped; `samples` holds the series.

    The first page is read by `start`, the last by `stop`, so that they bracket all in between. Both
    wait until what they say is of now, where an engine renews its page by a clock of its own.
    """

    def __init__(
        self,
        scrape: Callable[[bool], Scrape | None],
        interval_s: float = INTERVAL_S,
        refresh_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.samples: list[Sample] = []
        self.first: Scrape | None = None
        self.last: Scrape | None = None
        self._scrape = scrape
        self._interval_s = interval_s
        self._refresh_s = refresh_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        """Read the first page, and begin."""
        self.first = self._take(histograms=True)
        if self._refresh_s() > 0:
            time.sleep(self._refresh_s())
            self.first = self._take(histograms=True)
        self._thread.start()

    def stop(self) -> None:
        """End, wait for the scrape that is under way, and read the last page."""
        self._stop.set()
        self._thread.join()
        time.sleep(self._refresh_s())
        self.last = self._take(histograms=True)

    def _run(self) -> None:
        count = 0
        next_s = time.monotonic() + self._interval_s
        # By a timetable: a slow page delays the next one, and not all that come after.
        while not self._stop.wait(max(0.0, next_s - time.monotonic())):
            count += 1
            self._take(histograms=count % HISTOGRAMS_EVERY == 0)
            next_s = max(next_s + self._interval_s, time.monotonic())

    def _take(self, *, histograms: bool) -> Scrape | None:
        page = self._scrape(histograms)
        if page is not None:
            self.samples += page.samples()
        return page
