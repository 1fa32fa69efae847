"""A small sweep written to disk, an observer that keeps what it is told, and a tree's contents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from inferometer.core import Result
from inferometer.load.progress import Progress
from inferometer.plan import Selection
from inferometer.run.job import Job, Sweep
from inferometer.run.jobs import NO_OVERRIDES, Overrides, jobs_of_configs

MASTER = """\
fixed:
  image: inferometer/simulated:0.1.0
  model: Qwen/Qwen3-8B
  model-prefix: qwen3
  precision: fp8
  framework: simulated
  runner: sim-h200
  multinode: false
  scenarios:
    fixed-seq-len:
    - isl: 256
      osl: 16
      search-space:
      - { tp: 1, conc-list: [FIXED] }
"""
AGENTIC = """\
agentic:
  image: inferometer/simulated:0.1.0
  model: Qwen/Qwen3-8B
  model-prefix: qwen3
  precision: fp8
  framework: simulated
  runner: cluster:sim-h200
  multinode: false
  scenarios:
    agentic-coding:
    - search-space:
      - { tp: 1, conc-list: [2], kv-offloading: none }
"""
RUNNERS = """\
labels:
  sim-h200: [local]
  cluster:sim-h200: [local]
hardware:
  cluster:sim-h200:
    available-cpu-dram-mib: 1_000_000
    gpus-per-node: 8
"""
RECIPE = """\
- client:
    grace_s: 5
  workload:
    duration_s: SECONDS
    requests: null
    warmup_requests_per_lane: 1
- when: scenario == "agentic"
  workload:
    sessions: synthetic:quickstart
"""


@dataclass(frozen=True)
class Files:
    """A master file and its runners, with a recipe layer beside."""

    master: Path
    runners: Path

    def add_rule(self, rule: str) -> None:
        """One more rule of the layer beside the master file."""
        layer = self.master.parent / "recipes" / "test.yaml"
        with layer.open("a") as file:
            file.write(rule)


def write_files(
    folder: Path, seconds: float, conc: tuple[int, ...] = (1, 3), agentic: bool = False
) -> Files:
    """The files of a sweep of short windows."""
    files = Files(folder / "master.yaml", folder / "runners.yaml")
    (folder / "recipes").mkdir(parents=True)
    ladder = ", ".join(str(number) for number in conc)
    files.master.write_text(MASTER.replace("FIXED", ladder) + (AGENTIC if agentic else ""))
    files.runners.write_text(RUNNERS)
    files.add_rule(RECIPE.replace("SECONDS", str(seconds)))
    return files


def make_sweep(
    files: Files,
    clock: Literal["real", "virtual"] = "virtual",
    overrides: Overrides = NO_OVERRIDES,
    selection: Selection | None = None,
) -> Sweep:
    """The sweep that the files declare."""
    selection = selection or Selection()
    declared = jobs_of_configs(
        [str(files.master)], str(files.runners), selection, overrides, warn=lambda _: None
    )
    return Sweep(
        title="test",
        command="inferometer test",
        jobs=declared.jobs,
        sources=declared.sources,
        clock=clock,
        base_url=None,
    )


@dataclass
class Seen:
    """An observer that keeps what it is told. `on_progress` is called at each progress."""

    lines: list[str] = field(default_factory=list)
    done: int = -1
    points: list[str] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)
    told: list[Progress] = field(default_factory=list)
    results: dict[str, Result] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    ended: bool = False
    on_progress: Callable[[], None] = lambda: None

    def data(self, lines: tuple[str, ...]) -> None:
        self.lines += lines

    def begin(self, jobs: tuple[Job, ...], done: int) -> None:
        self.done = done

    def point(self, job: Job) -> None:
        self.points.append(job.point.id)

    def phase(self, text: str) -> None:
        self.phases.append(text)

    def progress(self, progress: Progress) -> None:
        self.told.append(progress)
        self.on_progress()

    def result(self, job: Job, result: Result) -> None:
        self.results[job.point.id] = result

    def failed(self, job: Job, message: str) -> None:
        self.failures[job.point.id] = message

    def end(self) -> None:
        self.ended = True


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below: when it was last written, and its bytes."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in files
    }
