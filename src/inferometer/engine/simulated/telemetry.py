"""The /metrics page of the built-in engine: vLLM's names, and its own lateness.

Counters and gauges are read from the scheduler when the page is asked for; only the histograms and
the lateness are fed as requests and steps end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from inferometer.clock import NS
from inferometer.engine.simulated.scheduler import Scheduler
from inferometer.engine.simulated.sequence import Sequence

LATENESS_KEPT = 100_000
"""Steps over which the quantiles of lateness are taken: the latest."""

_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_LABELS = ("engine", "model_name")


class Telemetry:
    """Everything /metrics shows of one engine."""

    def __init__(self, scheduler: Scheduler, model_name: str) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_SchedulerPage(scheduler, model_name))
        self._lateness = _Lateness()
        self._registry.register(self._lateness)
        self._values = ("0", model_name)
        self._ttft = self._histogram("time_to_first_token_seconds", "Time to first token.")
        self._e2e = self._histogram("e2e_request_latency_seconds", "Whole request.")
        self._queue = self._histogram("request_queue_time_seconds", "Waiting for admission.")

    def started(self, sequence: Sequence, at_ns: int) -> None:
        """The first token of a sequence was due at `at_ns`."""
        assert sequence.admitted_ns is not None
        self._ttft.observe((at_ns - sequence.arrival_ns) / NS)
        self._queue.observe(max(0, sequence.admitted_ns - sequence.arrival_ns) / NS)

    def finished(self, sequence: Sequence, at_ns: int) -> None:
        """The last token of a sequence was due at `at_ns`."""
        self._e2e.observe((at_ns - sequence.arrival_ns) / NS)

    def late(self, late_ns: int) -> None:
        """The tokens of a step went out this long after they were due."""
        self._lateness.add(late_ns)

    def page(self) -> bytes:
        """The page in Prometheus text format."""
        return generate_latest(self._registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        histogram = Histogram(
            f"vllm:{name}", text, _LABELS, buckets=_BUCKETS, registry=self._registry
        )
        return histogram.labels(*self._values)


class _SchedulerPage(Collector):
    """Reads counters and gauges of a scheduler at scrape time."""

    def __init__(self, scheduler: Scheduler, model_name: str) -> None:
        self._scheduler = scheduler
        self._values = ("0", model_name)

    def collect(self) -> Iterable[Metric]:
        scheduler = self._scheduler
        cache, counters = scheduler.cache, scheduler.counters
        yield self._gauge("num_requests_running", scheduler.running)
        yield self._gauge("num_requests_waiting", scheduler.waiting)
        yield self._gauge("kv_cache_usage_perc", cache.used / cache.total)
        yield self._pool(cache.total)
        yield self._counter("prefix_cache_queries", counters.prefix_queries)
        yield self._counter("prefix_cache_hits", counters.prefix_hits)
        yield self._counter("prompt_tokens", counters.prompt_tokens)
        yield self._counter("generation_tokens", counters.generation_tokens)
        yield self._counter("num_preemptions", counters.preemptions)
        yield self._counter("spec_decode_num_drafts", counters.drafts)
        yield self._counter("spec_decode_num_draft_tokens", counters.draft_tokens)
        yield self._counter("spec_decode_num_accepted_tokens", counters.accepted_tokens)
        success = CounterMetricFamily(
            "vllm:request_success", "Ended requests.", labels=(*_LABELS, "finished_reason")
        )
        ends = {"length": counters.finished, "abort": counters.cancelled, "stop": 0}
        for reason, count in ends.items():
            success.add_metric((*self._values, reason), count)
        yield success

    def _pool(self, blocks: int) -> Metric:
        labels = ("engine", "block_size", "num_gpu_blocks")
        family = GaugeMetricFamily("vllm:cache_config_info", "The KV pool.", labels=labels)
        family.add_metric((self._values[0], str(self._scheduler.block_size), str(blocks)), 1)
        return family

    def _gauge(self, name: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"vllm:{name}", name.replace("_", " "), labels=_LABELS)
        family.add_metric(self._values, value)
        return family

    def _counter(self, name: str, value: float) -> Metric:
        family = CounterMetricFamily(f"vllm:{name}", name.replace("_", " "), labels=_LABELS)
        family.add_metric(self._values, value)
        return family


class _Lateness(Collector):
    """A summary of how late steps were emitted: median, 99th percentile and maximum."""

    NAME = "inferometer_simulated_lateness_seconds"

    def __init__(self) -> None:
        self._latest: deque[int] = deque(maxlen=LATENESS_KEPT)
        self._count = 0
        self._sum_ns = 0

    def add(self, late_ns: int) -> None:
        self._latest.append(late_ns)
        self._count += 1
        self._sum_ns += late_ns

    def collect(self) -> Iterable[Metric]:
        summary = Metric(self.NAME, "Wake-up minus deadline of each emitted step.", "summary")
        if self._latest:
            levels = np.percentile(np.array(self._latest), (50, 99, 100)) / NS
            for quantile, level in zip(("0.5", "0.99", "1"), levels, strict=True):
                summary.add_sample(self.NAME, {"quantile": quantile}, float(level))
        summary.add_sample(f"{self.NAME}_count", {}, self._count)
        summary.add_sample(f"{self.NAME}_sum", {}, self._sum_ns / NS)
        yield summary
