"""The engine of a point: started for it from its launch plan, or already up somewhere."""

from __future__ import annotations

import contextlib
import http.client
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Protocol

from inferometer.core import LaunchPlan, Point, SideProcess
from inferometer.engine.ask import generates, get, served_models
from inferometer.engine.container import image_digest, remove_argv, run_argv
from inferometer.engine.place import fill, fill_text, held_port
from inferometer.engine.process import Command, EngineProcess
from inferometer.errors import EngineError, InputError, Problem
from inferometer.load.endpoints import parse_base_url
from inferometer.run.site import Site

if TYPE_CHECKING:
    from inferometer.engine.triage import LogReport

ROUTER_READY_S = 300.0
SIDE_SETTLES_S = 2.0
"""A store or a server of caches binds its port at once, or ends with the reason."""


class RunningEngine(Protocol):
    """An engine that answers, and may yet die."""

    base_url: str
    image_digest: str | None

    @property
    def pid(self) -> int | None: ...

    def died(self) -> str | None: ...

    @property
    def log_problem(self) -> str | None: ...

    def log_report(self) -> LogReport | None: ...


@dataclass(slots=True)
class ExternalEngine:
    """Somebody else's: we did not start it and will not stop it."""

    base_url: str
    pid: int | None = None
    image_digest: str | None = None
    log_problem: str | None = None

    def died(self) -> str | None:
        """Not ours to know; its failures show in the requests."""
        return None

    def log_report(self) -> LogReport | None:
        """Its log is elsewhere."""
        return None


@dataclass(slots=True)
class StartedEngine:
    """One that was started here, with the router in front of it where the plan has one."""

    base_url: str
    engine: EngineProcess
    beside: tuple[EngineProcess, ...]
    image_digest: str | None
    """Of the image that it runs from; None where it runs outside of a container."""

    @property
    def pid(self) -> int | None:
        """The leader of the engine's process group."""
        return self.engine.pid

    @property
    def log_problem(self) -> str | None:
        """Why the kept log is not whole; None where it is."""
        return self.engine.log.problem

    def died(self) -> str | None:
        """How the engine or what stands beside it ended; None while all run."""
        deaths = (process.died() for process in (self.engine, *self.beside))
        return next((death for death in deaths if death is not None), None)

    def log_report(self) -> LogReport | None:
        """What the engine's log says so far."""
        return self.engine.log.report()


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
    point: Point,
    plan: LaunchPlan,
    folder: Path,
    base_url: str | None,
    site: Site,
    tick: Callable[[str], None],
) -> Iterator[RunningEngine]:
    """A ready engine: one token was generated. Its logs and files go below `folder`.

    Raises EngineError when it does not start; stops what it started, in the reverse order.
    """
    if base_url is not None:
        served_models(base_url)
        yield ExternalEngine(base_url)
        return
    if not plan.argv:
        raise EngineError("the plan starts no engine, and no URL of a running one was given")
    with contextlib.ExitStack() as cleanup:
        port = cleanup.enter_context(held_port(_texts(plan)))
        start = _Start(plan, folder, port, site, _values(point, folder, port, site), cleanup, tick)
        yield start.all()


@dataclass(slots=True)
class _Start:
    """One start: what it needs in every step. Whatever is started is put on `cleanup`."""

    plan: LaunchPlan
    folder: Path
    port: int
    site: Site
    values: Mapping[str, str]
    cleanup: contextlib.ExitStack
    tick: Callable[[str], None]

    def all(self) -> StartedEngine:
        """What stands beside the engine, the engine, then its router: one that is asked too early
        gives up on its engine.
        """
        plan = self.plan
        container = self.site.container
        digest = None if container is None else image_digest(container, plan.image)
        files = _write_files(plan.files, self.folder, self.values)
        sides = tuple(self._side(side) for side in plan.side)
        router = plan.router if plan.router is not None and plan.router.argv else None
        engine = self._started("engine", plan.argv, files, self.port + (router is not None))
        engine.wait_ready(self.site.ready_timeout_s, self._waiting(engine))
        front = engine
        if router is not None:
            front = self._started("router", router.argv, None, self.port)
            front.wait_ready(ROUTER_READY_S, self._waiting(front))
        self.tick("waiting for its first token")
        generates(front.base_url, served_models(front.base_url)[0].id)
        beside = sides if front is engine else (*sides, front)
        return StartedEngine(front.base_url, engine, beside, digest)

    def _side(self, side: SideProcess) -> EngineProcess:
        """A process beside the engine. It says by nothing that it is ready, only that it is not."""
        process = self._started(side.name, side.argv, None, self.port, side.env)
        end_s = time.monotonic() + SIDE_SETTLES_S
        while time.monotonic() < end_s:
            if (death := process.died()) is not None:
                raise EngineError(death)
            self.tick(f"starting {side.name}")
            time.sleep(SIDE_SETTLES_S / 20)
        return process

    def _started(
        self,
        name: str,
        argv: tuple[str, ...],
        files: Path | None,
        port: int,
        own_env: Mapping[str, str] | None = None,
    ) -> EngineProcess:
        words = fill(argv, self.values)
        variables = self.plan.env if own_env is None else own_env
        env = {key: fill_text(value, self.values) for key, value in variables.items()}
        container = self.site.container
        if container is None:
            command = Command(name, words, {**self.site.env, **env}, files)
        else:
            # What a name of ours once held, another run must not find.
            called = f"inferometer-{name}-{uuid.uuid4().hex[:12]}"
            where = None if files is None else str(files)
            command = Command(
                name,
                run_argv(container, called, self.plan.image, words, env, where),
                cleanup=remove_argv(container, called),
            )
        log = self.folder / ("server.log" if name == "engine" else f"{name}.log")
        process = EngineProcess(command, log, f"http://127.0.0.1:{port}")
        return self.cleanup.enter_context(process)

    def _waiting(self, process: EngineProcess) -> Callable[[], None]:
        begun_s = time.monotonic()

        def waiting() -> None:
            phase = process.log.phase
            doing = "" if phase is None else f": {phase}"
            name = process.name
            self.tick(f"starting the {name}{doing} ({time.monotonic() - begun_s:.0f} s)")

        return waiting


def _values(point: Point, folder: Path, port: int, site: Site) -> dict[str, str]:
    """What the placeholders of a launch stand for here."""
    return {
        "port": str(port),
        "host": "127.0.0.1",
        "model": point.model,
        "model_path": site.model_path(point.model),
        "models_dir": site.models_dir or "",
        "result_dir": str(folder.resolve()),
    }


def _texts(plan: LaunchPlan) -> Iterator[str]:
    yield from plan.argv
    yield from plan.env.values()
    for side in plan.side:
        yield from side.argv
        yield from side.env.values()
    if plan.router is not None:
        yield from plan.router.argv


def _write_files(files: Mapping[str, str], folder: Path, values: Mapping[str, str]) -> Path | None:
    """The files that a launch reads, in a directory of their own; None where there are none.

    A plan may come from anybody's config: a file is written below that directory or not at all.
    """
    if not files:
        return None
    root = (folder / "files").resolve()
    for name, text in files.items():
        inside = PurePosixPath(name)
        if inside.is_absolute() or ".." in inside.parts:
            raise EngineError(f"the plan writes a file outside of its own directory: {name!r}")
        path = root / inside
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(fill_text(text, values))
    return root
