"""The engine of a point: started for it from its launch plan, or already up somewhere."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from inferometer.core import LaunchPlan
from inferometer.engine.process import EngineProcess, fill, free_port, get, served_models
from inferometer.errors import EngineError, InputError, Problem
from inferometer.load.endpoints import parse_base_url

READY_S = 1_800.0


class RunningEngine(Protocol):
    """An engine that answers, and may yet die."""

    base_url: str

    @property
    def pid(self) -> int | None: ...

    def died(self) -> str | None: ...


@dataclass(slots=True)
class ExternalEngine:
    """Somebody else's: we did not start it and will not stop it."""

    base_url: str
    pid: int | None = None

    def died(self) -> str | None:
        """Not ours to know; its failures show in the requests."""
        return None


def root_url(url: str) -> str:
    """`http://host:8000`, of that or of `http://host:8000/v1/`. Raises InputError for no URL."""
    try:
        parse_base_url(url, "chat")
    except InputError as error:
        faults = (Problem(problem.message, key=repr(url)) for problem in error.problems)
        raise InputError(*faults, "expected the URL of an engine: http://HOST:PORT") from None
    return url.strip().rstrip("/").removesuffix("/v1")


def is_simulated(base_url: str) -> bool:
    """True when the built-in engine answers there: it marks every answer."""
    try:
        with get(f"{base_url}/health", 5.0) as answer:
            return answer.headers.get("X-Inferometer-Simulated") is not None
    except (OSError, http.client.HTTPException):
        return False


@contextmanager
def running(
    plan: LaunchPlan, log: Path, base_url: str | None, tick: Callable[[str], None]
) -> Iterator[RunningEngine]:
    """A ready engine. Raises EngineError when it does not start; stops what it started."""
    if base_url is not None:
        served_models(base_url)
        yield ExternalEngine(base_url)
        return
    port = free_port()
    site = {"port": str(port), "host": "127.0.0.1", "model_path": ""}
    argv = fill(plan.argv, site)
    if not argv:
        raise EngineError("the plan starts no engine, and no URL of a running one was given")
    if plan.router is not None or plan.files:
        raise EngineError("the plan has a router or files to write; neither is set up yet")
    begun_s = time.monotonic()

    def waiting() -> None:
        tick(f"starting the engine ({time.monotonic() - begun_s:.0f} s)")

    with EngineProcess(argv, plan.env, log, f"http://127.0.0.1:{port}") as engine:
        engine.wait_ready(READY_S, waiting)
        yield engine
