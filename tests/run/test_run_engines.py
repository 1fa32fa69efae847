"""What a plan has beside its engine: started in order, stopped in the reverse, whatever fails."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from marked import until
from sweep_setup import make_sweep, write_files

from inferometer.core import GpuRelease, LaunchPlan, Point, RouterPlan, SideProcess
from inferometer.engine.process import EngineProcess
from inferometer.errors import EngineError, Interrupted
from inferometer.run import engines
from inferometer.run.engines import running
from inferometer.run.site import Site

pytestmark = pytest.mark.sockets

FAKE = Path(__file__).with_name("fake_engine.py")
SERVES = f"{sys.executable} {FAKE} --fault no-page --port"


def told(name: str, work: str, log: Path) -> tuple[str, ...]:
    """A program that notes its start and its end."""
    trap = f"trap 'echo {name} stopped >> {log}; exit' TERM"
    return ("/bin/sh", "-c", f"{trap}; echo {name} started >> {log}; {work} & wait; wait")


@pytest.fixture
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Point, LaunchPlan, Path]:
    """A plan of a store, a cache server, an engine and a router, and the file of their notes."""
    monkeypatch.setattr(engines, "SIDE_SETTLES_S", 0.02)  # what has started is seen in its notes
    (job,) = make_sweep(write_files(tmp_path / "sweep", 1.0, (1,))).jobs
    log = tmp_path / "notes"
    plan = replace(
        job.plan,
        argv=told("engine", f"{SERVES} {{port+1}}", log),
        router=RouterPlan("r", "1", told("router", f"{SERVES} {{port}}", log)),
        side=(
            SideProcess("store", told("store", "sleep 60", log), {}, None),
            SideProcess("cache", told("cache", "sleep 60", log), {}, None),
        ),
    )
    return job.point, plan, log


def notes(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def noted(log: Path) -> Callable[[str], None]:
    """To be told of a phase: returns when what is being started at a process's side has begun."""

    def tick(phase: str) -> None:
        name = phase.removeprefix("starting ")
        if name in ("store", "cache"):
            until(lambda: f"{name} started" in notes(log), f"{name} starts")

    return tick


def test_all_is_started_in_order_and_stopped_in_the_reverse(
    deployed: tuple[Point, LaunchPlan, Path], tmp_path: Path
) -> None:
    point, plan, log = deployed
    (tmp_path / "p").mkdir()
    phases: list[str] = []

    def tick(phase: str) -> None:
        phases.append(phase)
        noted(log)(phase)

    with running(point, plan, tmp_path / "p", None, Site(), tick) as engine:
        assert notes(log) == [f"{n} started" for n in ("store", "cache", "engine", "router")]
        assert engine.died() is None
        assert {f.name for f in (tmp_path / "p").glob("*.log")} == {
            "server.log",
            "router.log",
            "store.log",
            "cache.log",
        }
    assert notes(log)[4:] == [f"{n} stopped" for n in ("router", "engine", "cache", "store")]
    assert phases[0] == "starting store"
    assert any(phase.startswith("starting the router") for phase in phases)
    assert engine.left == ()


def test_a_side_process_that_ends_is_named_and_what_was_started_is_stopped(
    deployed: tuple[Point, LaunchPlan, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its time is over before it was looked at, as on a busy machine."""
    point, plan, log = deployed
    fails = SideProcess("cache", ("/bin/sh", "-c", "echo no such device; exit 4"), {}, None)
    plan = replace(plan, side=(plan.side[0], fails))
    (tmp_path / "p").mkdir()
    start = EngineProcess.start

    def started(process: EngineProcess) -> None:
        start(process)
        if process.name == "cache":
            until(lambda: process.died() is not None, "it ends")
        else:
            until(lambda: notes(log) == ["store started"], "it starts")

    monkeypatch.setattr(EngineProcess, "start", started)
    monkeypatch.setattr(engines, "SIDE_SETTLES_S", 0.0)
    with (
        pytest.raises(EngineError, match=r"the cache ended with exit code 4; .*no such device"),
        running(point, plan, tmp_path / "p", None, Site(), lambda _: None),
    ):
        raise AssertionError("it started")
    assert notes(log) == ["store started", "store stopped"]


def test_a_stop_while_the_engine_starts_stops_what_is_there(
    deployed: tuple[Point, LaunchPlan, Path], tmp_path: Path
) -> None:
    point, plan, log = deployed
    (tmp_path / "p").mkdir()

    def stopped(phase: str) -> None:
        noted(log)(phase)
        if phase.startswith("starting the engine"):
            raise Interrupted("stopped by the user")

    with (
        pytest.raises(Interrupted),
        running(point, plan, tmp_path / "p", None, Site(), stopped),
    ):
        raise AssertionError("it started")
    assert notes(log)[:2] == ["store started", "cache started"]
    assert notes(log)[-2:] == ["cache stopped", "store stopped"]


HELD = GpuRelease({"GPU-0": 6e8}, {"GPU-0": 9e10}, 120.0, {"GPU-0": (4711,)})


class Gpus:
    """Stands for the GPUs: notes when it is looked at, and has something left."""

    log: Path

    def __init__(self) -> None:
        self.note("before")

    def wait(self, tick: Callable[[], bool]) -> GpuRelease:
        assert tick() in (True, False)
        self.note("after")
        return HELD

    def note(self, text: str) -> None:
        with self.log.open("a") as file:
            file.write(f"GPUs {text}\n")


def test_gpu_memory_is_looked_at_before_the_start_and_after_the_end_and_told(
    deployed: tuple[Point, LaunchPlan, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point, plan, log = deployed
    plan = replace(plan, side=(), router=None, argv=told("engine", f"{SERVES} {{port}}", log))
    monkeypatch.setattr(engines, "Release", Gpus)
    monkeypatch.setattr(Gpus, "log", log, raising=False)
    (tmp_path / "p").mkdir()
    phases: list[str] = []
    with running(point, plan, tmp_path / "p", None, Site(), phases.append) as engine:
        while_it_runs = engine.release
    assert while_it_runs is None
    assert notes(log) == ["GPUs before", "engine started", "engine stopped", "GPUs after"]
    assert engine.release == HELD
    assert phases[-1] == HELD.told()
    assert "90.0 GB of GPU-0 (processes 4711) are not free again" in phases[-1]


def test_gpu_memory_is_awaited_where_the_engine_did_not_start_and_where_the_user_stops(
    deployed: tuple[Point, LaunchPlan, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point, plan, log = deployed
    plan = replace(plan, side=(), router=None, argv=("/bin/sh", "-c", "exit 3"))
    monkeypatch.setattr(engines, "Release", Gpus)
    monkeypatch.setattr(Gpus, "log", log, raising=False)
    (tmp_path / "p").mkdir()

    def stopped(phase: str) -> None:
        if phase.startswith("waiting until GPU"):
            raise Interrupted("stopped by the user")

    with (
        pytest.raises(EngineError, match="exit code 3"),
        running(point, plan, tmp_path / "p", None, Site(), stopped),
    ):
        raise AssertionError("it started")
    assert notes(log) == ["GPUs before", "GPUs after"]
