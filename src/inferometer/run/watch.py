"""Everything that is watched while a point is measured, as one thing to start and stop: GPUs and
machine from before the engine starts, the engine's own metrics once it answers.
"""

from __future__ import annotations

import os

from inferometer.core import EngineTotals, GpuReport, MetricsReport, Sample
from inferometer.engine.ask import page
from inferometer.observe.containers import first_processes
from inferometer.observe.engine_metrics import Scrape, Scraper, Watcher, totals
from inferometer.observe.gpus import GpuWatcher
from inferometer.observe.host import HostWatcher
from inferometer.observe.kvpool import pool_tokens
from inferometer.observe.listening import engine_listening
from inferometer.observe.processes import family
from inferometer.run.engines import RunningEngine


class Watch:
    """`start`, then `engine_is_up`, then `stop`; then what was seen may be read."""

    def __init__(self) -> None:
        self._engine: RunningEngine | None = None
        self._roots: frozenset[int] = frozenset()
        self._gpus = GpuWatcher()
        self._host = HostWatcher(self._engine_pids)
        self._scraper: Scraper | None = None
        self._metrics: Watcher | None = None

    def start(self) -> None:
        """Before the engine starts."""
        self._gpus.start()
        self._host.start()

    def engine_is_up(self, engine: RunningEngine, gpus: int) -> None:
        """The engine is ready, and idle; `gpus` is how many the deployment has."""
        self._engine = engine
        if engine.pid is not None:
            own = family({engine.pid})
            self._roots = frozenset({engine.pid, *first_processes(own)})
        else:
            self._roots = engine_listening(engine.base_url)
        self._gpus.engine_is_up(gpus, self._engine_pids)
        self._scraper = scraper = Scraper(engine.base_url, page)
        self._metrics = Watcher(scraper.scrape, refresh_s=lambda: scraper.refresh_s)
        self._metrics.start()

    def load_is_over(self) -> None:
        """The engine is idle again, and still up."""
        if self._metrics is not None:
            self._metrics.stop()

    def stop(self) -> None:
        """The engine is, or soon will be, gone."""
        self._host.stop()
        self._gpus.stop()

    @property
    def totals(self) -> EngineTotals | None:
        """What the engine counted between its two idle moments."""
        return None if self._metrics is None else totals(self._metrics.first, self._metrics.last)

    @property
    def pages(self) -> tuple[Scrape | None, Scrape | None]:
        """The engine's metrics page at its two idle moments."""
        return (None, None) if self._metrics is None else (self._metrics.first, self._metrics.last)

    @property
    def pool_tokens(self) -> int | None:
        """What the engine's KV pool holds: by its log, else by its metrics page."""
        log = None if self._engine is None else self._engine.log_report()
        if log is not None and (told := log.facts.get("kv_pool_tokens")):
            return round(told)
        first, _ = self.pages
        return None if first is None else pool_tokens(first.text)

    @property
    def metrics(self) -> MetricsReport | None:
        """How the engine's metrics page was read."""
        return None if self._scraper is None else self._scraper.report()

    @property
    def gpus(self) -> GpuReport:
        """What was watched of the GPUs."""
        return self._gpus.report()

    @property
    def samples(self) -> list[Sample]:
        """Every series."""
        scraped = [] if self._metrics is None else self._metrics.samples
        return [*self._gpus.samples, *self._host.samples, *scraped]

    def _engine_pids(self) -> frozenset[int]:
        """Every process of the engine; none of one that was up already and is not to be found."""
        if not self._roots:
            return frozenset()
        own = family(self._roots)
        # What was up already may be what started us.
        return own if os.getpid() not in own else own - family({os.getpid()})
