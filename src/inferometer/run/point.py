"""One point, start to end: start the engine, load it, watch it, stop it, judge, keep.

begin directory → engine ready → totals → load and scrapes → totals → engine stopped
→ records to parquet → analysis → verdict and result, last
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from inferometer import MEASUREMENT_VERSION, __version__
from inferometer.core import ClientReport, Result, Sample
from inferometer.core.result import Provenance
from inferometer.deferred import Deferred
from inferometer.engine.ask import ServedModel, served_models
from inferometer.errors import Interrupted
from inferometer.run.engines import ExternalEngine, RunningEngine, is_simulated, running
from inferometer.run.job import Job, Sweep
from inferometer.run.loadprocess import LoadProcess
from inferometer.run.observer import Observer
from inferometer.run.order import Failed, Order
from inferometer.run.prompting import learned, rules_of
from inferometer.run.watch import Watch
from inferometer.store import FORMAT, ClientFile, PointDir, sample_row
from inferometer.workload import PromptRules

if TYPE_CHECKING:
    from inferometer.analyze import point as _analysis
else:
    # What judges: not needed before the load is over, and a third of what a command imports.
    _analysis = Deferred("inferometer.analyze.point")

POLL_S = 0.1
WORD_S = 10.0
"""Longest that the word of an end may take, once nobody listens."""
STOPPED = "stopped by the user"


def measure_point(
    sweep: Sweep,
    job: Job,
    folder: PointDir,
    load: LoadProcess,
    observer: Observer,
    stopping: Callable[[], bool],
) -> Result:
    """Measure one point in real time and write all its files; the result is also returned.

    Raises EngineError when the engine does not start, Interrupted after a stop by the user: then
    records are kept and there is no result.
    """

    def waiting(text: str) -> None:
        if stopping():
            raise Interrupted(f"{job.point.id}: {STOPPED} before its engine was ready")
        observer.phase(text)

    folder.begin(job.point, job.digest, job.plan)
    load.expect(job)
    rules = rules_of(job.plan)
    observer.phase("starting the engine")
    watch = Watch()
    watch.start()
    try:
        with running(
            job.point, job.plan, folder.path, sweep.base_url, sweep.site, waiting
        ) as engine:
            provenance: Provenance = "simulated" if is_simulated(engine.base_url) else "measured"
            # Before the counters are taken: what is learned for it costs requests of its own.
            order = _order(sweep, job, folder.path, engine.base_url, rules)
            watch.engine_is_up(engine, job.point.gpus)
            order = replace(order, pool_tokens=watch.pool_tokens)
            try:
                report = _follow(order, engine, load, observer, stopping)
            finally:
                watch.load_is_over()
            died = _death(engine)
    finally:
        watch.stop()
    observer.phase("judging")
    folder.seal_records()
    _merge_samples(folder, watch.samples)
    _keep_pages(folder, watch)
    return judge(sweep, job, folder, _client_file(watch, engine, provenance, report, died))


def judge(sweep: Sweep, job: Job, folder: PointDir, client: ClientFile) -> Result:
    """The result from what is on disk, written last.

    Raises Interrupted where the user stopped the window: there is no result then.
    """
    folder.write_client(client)
    if client.client.window.stop_reason == STOPPED:
        raise Interrupted(f"{job.point.id}: {STOPPED}; its records are kept")
    result = analyzed(sweep, job, folder, client)
    folder.finish(result)
    return result


def analyzed(sweep: Sweep, job: Job, folder: PointDir, client: ClientFile) -> Result:
    """What the records of a point come to; writes nothing."""
    return _analysis.analyze_point(
        _analysis.PointInputs(
            point=job.point,
            plan=job.plan,
            digest=job.digest,
            records=folder.requests(sessions=job.plan.workload.kind == "agentic"),
            samples=folder.samples(),
            client=client.client,
            totals=client.totals,
            gpus=client.gpus,
            metrics=client.metrics,
            engine_version=client.engine_version,
            release=client.release,
            provenance=client.provenance,
            clock=sweep.clock,
            engine_died=client.engine_died,
            versions=_analysis.Versions(FORMAT, __version__, MEASUREMENT_VERSION),
            slos=sweep.slos,
        )
    )


def _client_file(
    watch: Watch,
    engine: RunningEngine,
    provenance: Provenance,
    report: ClientReport,
    died: str | None,
) -> ClientFile:
    """Everything about a load that is not in its records; the engine is at its end."""
    return ClientFile(
        format=FORMAT,
        provenance=provenance,
        client=report,
        totals=watch.totals,
        engine_died=died,
        gpus=watch.gpus,
        image_digest=engine.image_digest,
        metrics=watch.metrics,
        log_problem=engine.log_problem,
        engine_version=engine.version,
        release=engine.release,
        left=engine.left,
    )


def _death(engine: RunningEngine) -> str | None:
    """How it ended, if it did. Where nobody listens any more the word of that is on its way: a load
    that ends with its engine may be over first.
    """
    if isinstance(engine, ExternalEngine):
        return None  # nobody will tell
    end_s = time.monotonic() + WORD_S
    while (died := engine.died()) is None and time.monotonic() < end_s:
        parts = urlsplit(engine.base_url)
        try:
            socket.create_connection((parts.hostname or "", parts.port or 80), POLL_S).close()
        except ConnectionRefusedError:
            time.sleep(POLL_S)
        except OSError:
            return None
        else:
            return None
    return died


def _order(sweep: Sweep, job: Job, path: Path, base_url: str, rules: PromptRules) -> Order:
    """The load for the engine at `base_url`, which is asked for its model and what it adds."""
    model = _served(job, base_url)
    live = job.plan.workload.replies == "live"
    return Order(
        job=job,
        base_url=base_url,
        model=model.id,
        max_model_len=model.max_model_len,
        folder=path,
        prompts=learned(rules, job.plan.client, base_url, model.id, live),
        headers=sweep.headers,
        workers=sweep.workers,
    )


def _follow(
    order: Order,
    engine: RunningEngine,
    load: LoadProcess,
    observer: Observer,
    stopping: Callable[[], bool],
) -> ClientReport:
    """Hand the load to its process and follow it; pass on a death or a stop, once."""
    load.begin(order)
    told = False
    while True:
        message = load.poll(POLL_S)
        if isinstance(message, ClientReport):
            return message
        if isinstance(message, Failed):
            raise message.error
        if message is not None:
            observer.progress(message)
        if not told and (reason := STOPPED if stopping() else engine.died()) is not None:
            load.stop(reason)
            told = True


def _served(job: Job, base_url: str) -> ServedModel:
    """The name to ask for and the context limit: the plan's, else what the engine lists."""
    listed = served_models(base_url)
    limits = {model.id: model.max_model_len for model in listed}
    # What a started engine calls its model is its own affair; of one that is up, a person said.
    name = next(iter(limits), job.point.model) if job.plan.argv else job.point.model
    return ServedModel(name, job.point.max_model_len or limits.get(name))


def _keep_pages(folder: PointDir, watch: Watch) -> None:
    """What the engine said of itself, in its own words."""
    first, last = watch.pages
    if first is not None:
        folder.write_page("first", first.text)
    if last is not None:
        folder.write_page("last", last.text)


def _merge_samples(folder: PointDir, scraped: list[Sample]) -> None:
    """Add the scrapes to the client's own samples, in order of time."""
    own = folder.samples()
    # Out of the way, not gone, until the merged file is there.
    aside = (folder.path / "samples.jsonl").rename(folder.path / "samples.client.jsonl")
    with folder.sample_journal() as samples:
        for sample in sorted([*own, *scraped], key=lambda s: s.at_ns):
            samples.append(sample_row(sample))
        samples.seal()
    aside.unlink()
