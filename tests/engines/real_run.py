"""A sweep on a real engine: started by `inferometer run` on files of this folder, and read back."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from inferometer.core import Record, Result, Sample
from inferometer.store import ClientFile, RunDir

HERE = Path(__file__).parent
READY_S = 1800
RUN_S = 2 * READY_S + 600
SITE = """\
models: {{ tiny: {model} }}
env:
  PATH: {path}:/usr/bin:/bin
ready-timeout-s: {ready}
"""
EXPLAINED = {"host_shared", "schedule_lag", "client_lag", "client_cpu"}
"""What engine and client on the same few cores come to; anything else is a fault."""
BY_A_LATE_CLIENT = "little_residual"
"""A loop that is late still counts a request as open that has ended: only beside a lag."""


@dataclass(frozen=True)
class Measured:
    """What one point left on disk."""

    folder: Path
    result: Result
    client: ClientFile
    records: list[Record]
    samples: list[Sample]


@dataclass(frozen=True)
class Ran:
    """The whole run. `left` are processes that still work in its folder."""

    run: Path
    said: str
    points: dict[str, Measured]
    left: list[str]


def run_sweep(folder: Path, files: Sequence[Path], model: str, path: Path) -> Ran:
    """Run the points of `files`, given in `folder`, with `path` first on the engine's PATH. `model`
    is what was written there as the model.
    """
    for file in files:
        shutil.copytree(file, folder / file.name) if file.is_dir() else shutil.copy(file, folder)
    site = SITE.format(model=folder / model, path=path, ready=READY_S)
    (folder / "site.yaml").write_text(site)
    options = ["--runners", "runners.yaml", "--site", "site.yaml", "--out", "run"]
    done = subprocess.run(
        [sys.executable, "-m", "inferometer", "run", "master.yaml", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    said = done.stdout + done.stderr
    # Code 5: a point is invalid, which a busy machine may explain; the tests look at the reasons.
    assert done.returncode in (0, 5), said
    run = RunDir(folder / "run")
    points = {planned.id: _measured(run, planned.id) for planned in run.manifest().points}
    return Ran(run.path, said, points, _working_in(folder))


def blamed(result: Result) -> dict[str, str]:
    """Reasons of a verdict that a small machine does not explain."""
    reasons = {reason.code: reason.message for reason in result.verdict.reasons}
    late = {"schedule_lag", "client_lag"} & set(reasons)
    explained = EXPLAINED | ({BY_A_LATE_CLIENT} if late else set())
    return {code: text for code, text in reasons.items() if code not in explained}


def _measured(run: RunDir, name: str) -> Measured:
    point = run.point(name)
    return Measured(point.path, point.result(), point.client(), point.records(), point.samples())


def _working_in(folder: Path) -> list[str]:
    """Processes that were started in a folder and are still there."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve().is_relative_to(folder):
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found
