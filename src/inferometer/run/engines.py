"""The engine of a point: started for it from its launch plan, or already up somewhere."""

from __future__ import annotations

import contextlib
import http.client
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Protocol

from inferometer.core import GpuRelease, LaunchPlan, Point, SideProcess
from inferometer.engine.ask import engine_version, get, served_models
from inferometer.engine.container import (
    Container,
    Image,
    Launch,
    how_it_ended,
    inspect_image,
    passed_env,
    pull_argv,
    remove_argv,
    run_argv,
)
from inferometer.engine.firsttoken import first_token
from inferometer.engine.place import fill, fill_text, held_port
from inferometer.engine.process import Command, EngineProcess
from inferometer.errors import EngineError, InputError, Interrupted, Problem
from inferometer.load.endpoints import parse_base_url
from inferometer.observe.release import Release
from inferometer.plan.templates import is_site_placeholder
from inferometer.run.site import Site

if TYPE_CHECKING:
    from inferometer.engine.logreport import LogReport

ROUTER_READY_S = 300.0
PULL_S = 3_600.0
"""Images of engines are 10 to 40 GB."""
POLL_S = 0.5
FILES = "files"
_PLACEHOLDER = re.compile(r"\{([a-z0-9_+]+)\}")
SIDE_SETTLES_S = 2.0
"""A store or a server of caches binds its port at once, or ends with the reason."""


class RunningEngine(Protocol):
    """An engine that answers, and may yet die."""

    base_url: str
    image_digest: str | None
    version: str | None
    release: GpuRelease | None
    """Once it has ended: whether its GPUs are free again."""

    @property
    def left(self) -> tuple[int, ...]: ...

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
    version: str | None = None
    release: GpuRelease | None = None
    left: tuple[int, ...] = ()

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
    version: str | None = None
    release: GpuRelease | None = None

    @property
    def left(self) -> tuple[int, ...]:
        """Processes that would not end, once all were stopped."""
        return tuple(pid for process in (self.engine, *self.beside) for pid in process.left)

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
        # A password, or a key behind a '?', is not for a log.
        shown = re.sub(r"(^|//)[^/]*@|[?#].*", _without_text, url, flags=re.DOTALL)
        faults = (Problem(problem.message, key=repr(shown)) for problem in error.problems)
        # As a browser takes it. What had to be hidden is not typed for anybody.
        typed = re.fullmatch(r"[\w.-]+(:[0-9]+)?(/v1)?/?", url, flags=re.ASCII)
        meant = f"http://{url}" if typed else "http://HOST:PORT"
        raise InputError(*faults, f"expected the URL of an engine: {meant}") from None
    return url.strip().rstrip("/").removesuffix("/v1")


def _without_text(found: re.Match[str]) -> str:
    if found[0].endswith("@"):
        return f"{found[1]}[not kept]@"
    return f"{found[0][0]}[not kept]"


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
        yield ExternalEngine(base_url, version=engine_version(base_url))
        return
    if not plan.argv:
        raise EngineError("the plan starts no engine, and no URL of a running one was given")
    gpus, started = Release(), None
    try:
        with contextlib.ExitStack() as cleanup:
            port = cleanup.enter_context(held_port(_texts(plan)))
            values = _values(point, folder, port, site)
            started = _Start(plan, folder, port, site, values, cleanup, tick).all()
            yield started
    finally:
        # Also of an engine that did not start: it may have come as far as its weights.
        release = gpus.wait(lambda: _told(tick, "waiting until GPU memory is free again"))
        if release is not None and (held := release.told()) is not None:
            _told(tick, held)
        if started is not None:
            started.release = release


def _told(tick: Callable[[str], None], text: str) -> bool:
    """Whether the user has asked to stop: then nothing is waited for, and what is under way is not
    interrupted either.
    """
    try:
        tick(text)
    except Interrupted:
        return True
    return False


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
    image: Image | None = None

    def all(self) -> StartedEngine:
        """What stands beside the engine, the engine, then its router: one that is asked too early
        gives up on its engine.
        """
        plan = self.plan
        if (container := self.site.container) is not None:
            self._check(container)
            self.image = self._fetched(container)
        files = _write_files(plan.files, self.folder, self.values)
        sides = tuple(self._side(side, files) for side in plan.side)
        router = plan.router if plan.router is not None and plan.router.argv else None
        engine = self._started("engine", plan.argv, files, self.port + (router is not None))
        engine.wait_ready(self.site.ready_timeout_s, self._waiting(engine))
        front = engine
        if router is not None:
            front = self._started("router", router.argv, files, self.port)
            front.wait_ready(ROUTER_READY_S, self._waiting(front))
        first_token(front, engine, self.tick)
        beside = sides if front is engine else (*sides, front)
        digest = None if self.image is None else self.image.digest
        version = engine_version(engine.base_url)
        return StartedEngine(front.base_url, engine, beside, digest, version)

    def _check(self, container: Container) -> None:
        """What talks over loopback is one container, or all are on the host's network."""
        router = self.plan.router is not None and self.plan.router.argv
        if not container.on_host_network and (router or self.plan.side):
            raise EngineError(
                f"the plan has processes beside its engine, which meet on loopback: the site's "
                f"network {container.network!r} keeps them apart; use network: host"
            )

    def _fetched(self, container: Container) -> Image:
        """The image, pulled where the runtime has it not: before the clock of the start runs."""
        wanted = self.plan.image
        if (image := inspect_image(container, wanted)) is not None:
            return image
        command = Command("pull", pull_argv(container, wanted))
        with EngineProcess(command, self.folder / "pull.log", "") as pull:
            begun_s = time.monotonic()
            while (ended := pull.ended()) is None:
                passed_s = time.monotonic() - begun_s
                if passed_s > PULL_S:
                    raise EngineError(f"{wanted}: not pulled in {PULL_S:g} s; {pull.last_words()}")
                self.tick(f"pulling {wanted} ({passed_s:.0f} s)")
                time.sleep(POLL_S)
            if ended != 0:
                raise EngineError(f"{wanted}: cannot be pulled; {pull.last_words()}")
        image = inspect_image(container, command.argv[-1]) or inspect_image(container, wanted)
        if image is None:
            raise EngineError(f"{wanted}: was pulled, and {container.runtime} does not have it")
        return image

    def _side(self, side: SideProcess, files: Path | None) -> EngineProcess:
        """A process beside the engine. It says by nothing that it is ready, only that it is not."""
        process = self._started(side.name, side.argv, files, self.port, side.env)
        end_s = time.monotonic() + SIDE_SETTLES_S
        while True:
            settled = time.monotonic() >= end_s
            # Also once the time is over: on a busy machine this may be the only look.
            if (death := process.died()) is not None:
                raise EngineError(death)
            if settled:
                return process
            self.tick(f"starting {side.name}")
            time.sleep(SIDE_SETTLES_S / 20)

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
        _check_filled(name, [*words, *env.values()])
        container = self.site.container
        if container is None:
            command = Command(name, words, {**self.site.env, **env}, files)
        else:
            command = self._contained(container, name, words, env, files, port)
        log = self.folder / ("server.log" if name == "engine" else f"{name}.log")
        process = EngineProcess(command, log, f"http://127.0.0.1:{port}")
        return self.cleanup.enter_context(process)

    def _contained(
        self,
        container: Container,
        name: str,
        words: list[str],
        env: Mapping[str, str],
        files: Path | None,
        port: int,
    ) -> Command:
        assert self.image is not None
        # What a name of ours once held, another run must not find.
        called = f"inferometer-{name}-{uuid.uuid4().hex[:12]}"
        where = None if files is None else str(files)
        launch = Launch(called, self.image.id, words, env, where, (port,))
        return Command(
            name,
            run_argv(container, launch),
            passed_env(container, env),
            cleanup=remove_argv(container, called),
            explain=lambda code: how_it_ended(container, called, code),
        )

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
    inside = site.container is None or site.container.on_host_network
    return {
        "port": str(port),
        # What comes through a bridge does not come from loopback.
        "host": "127.0.0.1" if inside else "0.0.0.0",
        "model": point.model,
        "model_path": site.model_path(point.model),
        "models_dir": site.models_dir or "",
        # Where the files of a plan are written, which it names by this.
        "result_dir": str((folder / FILES).resolve()),
        **site.places,
    }


def _check_filled(name: str, texts: list[str]) -> None:
    """Raises EngineError where something would be started with a placeholder for a value."""
    found = {word for text in texts for word in _PLACEHOLDER.findall(text)}
    if missing := sorted(word for word in found if is_site_placeholder(word)):
        raise EngineError(
            f"the {name} needs {', '.join(f'{{{word}}}' for word in missing)}, which nothing here "
            "says: name it under `places` of the site file"
        )


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
    root = (folder / FILES).resolve()
    for name, text in files.items():
        inside = PurePosixPath(name)
        if inside.is_absolute() or ".." in inside.parts:
            raise EngineError(f"the plan writes a file outside of its own directory: {name!r}")
        path = root / inside
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(fill_text(text, values))
    return root
