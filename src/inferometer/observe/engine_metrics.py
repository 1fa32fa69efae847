"""An engine's Prometheus metrics: whole-run totals, and a few gauges as a time series.

Knows vLLM's family names, which the built-in engine shares. Runs in a thread of the composing
process, never in the one that carries the load. A family that is absent stays None.
"""

from __future__ import annotations

import http.client
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from inferometer.core import EngineTotals, Sample

TIMEOUT_S = 2.0
GAUGES = (
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:prefix_cache_queries_total",
    "vllm:prefix_cache_hits_total",
    "vllm:num_preemptions_total",
)
REQUESTS = "vllm:request_success_total"
PROMPT_TOKENS = "vllm:prompt_tokens_total"
GENERATION_TOKENS = "vllm:generation_tokens_total"
Read = Callable[[str, float], tuple[int, bytes]]
LATENESS_P99 = 'inferometer_simulated_lateness_seconds{quantile="0.99"}'


@dataclass(frozen=True, slots=True)
class Scrape:
    """One page: every sample's value summed over its labels, by sample name.

    Quantiles do not add up: each is kept by itself, as `name{quantile="0.99"}`. A sum that is not
    finite says nothing and is left out.
    """

    at_ns: int
    values: Mapping[str, float]


def parse(text: str, at_ns: int) -> Scrape:
    """Sum each sample name over its label sets. Raises ValueError for a page that is none."""
    try:
        families = list(text_string_to_metric_families(text))
    except IndexError as error:
        # The parser's own way to stumble over braces that do not match.
        raise ValueError("not a metrics page") from error
    values: dict[str, float] = {}
    for sample in (sample for family in families for sample in family.samples):
        name = sample.name
        if (quantile := sample.labels.get("quantile")) is not None:
            name = f'{name}{{quantile="{quantile}"}}'
        values[name] = values.get(name, 0.0) + sample.value
    return Scrape(at_ns, {name: value for name, value in values.items() if math.isfinite(value)})


def scrape(base_url: str, read: Read) -> Scrape | None:
    """Read `/metrics`; None where there is none, or it is no metrics page.

    `read` gives the status and the body of a URL within so many seconds; it raises OSError or
    HTTPException.
    """
    try:
        status, body = read(f"{base_url}/metrics", TIMEOUT_S)
        return parse(body.decode("utf-8"), time.monotonic_ns()) if status == 200 else None
    except (OSError, ValueError, http.client.HTTPException):
        return None


def totals(before: Scrape | None, after: Scrape | None) -> EngineTotals | None:
    """Differences of the counters between two idle moments; None without both pages."""
    if before is None or after is None:
        return None

    def difference(name: str) -> float | None:
        last = after.values.get(name)
        return None if last is None else _finite(last - before.values.get(name, 0.0))

    late_s = after.values.get(LATENESS_P99)
    return EngineTotals(
        requests=difference(REQUESTS),
        prompt_tokens=difference(PROMPT_TOKENS),
        generation_tokens=difference(GENERATION_TOKENS),
        lateness_p99_ms=None if late_s is None else _finite(late_s * 1e3),
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


class Watcher:
    """Scrapes in a thread, at `interval_s`, until stopped; `samples` holds the series."""

    def __init__(
        self, base_url: str, interval_s: float, read: Callable[[str], Scrape | None]
    ) -> None:
        self.samples: list[Sample] = []
        self._base_url = base_url
        self._interval_s = interval_s
        self._read = read
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for the scrape that is under way."""
        self._stop.set()
        self._thread.join(timeout=2 * TIMEOUT_S)

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            page = self._read(self._base_url)
            if page is None:
                continue
            self.samples += [
                Sample(page.at_ns, name, "", page.values[name])
                for name in GAUGES
                if name in page.values
            ]
