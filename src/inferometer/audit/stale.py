"""What must be measured again: points whose digest has no fresh valid result.

A result counts for exactly the digest that it was measured at, in whatever run it lies. Where the
session data is not at hand (`data_apart`) it is left out on both sides: then the launch, the client
and the settings of the workload must be equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from inferometer import MEASUREMENT_VERSION
from inferometer.core import LaunchPlan, Point
from inferometer.errors import StoreError
from inferometer.plan import digest
from inferometer.store import PointDir, RunDir

MAX_DEPTH = 3
"""Directories below a store in which runs are looked for."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One finished point of a run."""

    digest: str
    run: str
    folder: Path
    verdict: str
    measured_at: str
    metrics: Mapping[str, float | None]

    @property
    def place(self) -> str:
        """`RUN/points/ID`."""
        return str(self.folder)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A point to be measured, and why the store does not have it."""

    name: str
    digest: str
    why: str


def runs_in(store: Path) -> Iterator[RunDir]:
    """The runs at or below a directory, by name. StoreError where it does not exist."""
    if not store.is_dir():
        raise StoreError(f"{store}: no such store; name a run or a directory of runs")
    level = [store]
    for _ in range(MAX_DEPTH):
        below: list[Path] = []
        for folder in level:
            if (folder / "run.json").is_file():
                yield RunDir(folder)
            else:
                inside = (path for path in folder.iterdir() if not path.is_symlink())
                below += sorted(path for path in inside if path.is_dir())
        level = below


def stored_results(
    stores: Iterable[Path], *, data_apart: bool = False, virtual: bool = False
) -> dict[str, Stored]:
    """Results by digest, of equal ones the best: a valid one, then the newest. `data_apart` takes
    each digest without that of the session data; `virtual` takes predictions too.
    """
    found: dict[str, Stored] = {}
    for store in stores:
        for run in runs_in(store):
            for folder in run.finished():
                each = _stored(run, folder, data_apart, virtual)
                if each is not None and _better(each, found.get(each.digest)):
                    found[each.digest] = each
    return found


def stale(points: Iterable[tuple[str, str]], stored: Mapping[str, Stored]) -> tuple[Wanted, ...]:
    """Of (name, digest) those without a valid result, in order; equal digests once."""
    wanted: dict[str, Wanted] = {}
    for name, key in points:
        result = stored.get(key)
        if result is not None and result.verdict == "valid":
            continue
        why = "no result" if result is None else f"its result is {result.verdict}"
        wanted.setdefault(key, Wanted(name, key, why))
    return tuple(wanted.values())


def one_an_arm(
    wanted: Sequence[Wanted], arm_of: Mapping[str, tuple[str, int]]
) -> tuple[Wanted, ...]:
    """The lowest concurrency of each arm. `arm_of`: name to (arm, concurrency)."""
    lowest: dict[str, Wanted] = {}
    for each in sorted(wanted, key=lambda found: arm_of[found.name][1]):
        lowest.setdefault(arm_of[each.name][0], each)
    kept = {each.digest for each in lowest.values()}
    return tuple(each for each in wanted if each.digest in kept)


def digest_apart(point: Point, plan: LaunchPlan) -> str:
    """The digest without that of the session data, which is known only where the data lies."""
    workload = replace(plan.workload, sessions_digest=None)
    return digest(point, replace(plan, workload=workload))


def _stored(run: RunDir, folder: PointDir, data_apart: bool, virtual: bool) -> Stored | None:
    result = folder.result()
    if result.clock != "real" and not virtual:
        return None
    if result.measurement_version != MEASUREMENT_VERSION:
        # Its digest says so too, but the one without session data is worked out anew.
        return None
    launch = folder.launch()
    key = digest_apart(launch.point, launch.plan) if data_apart else result.digest
    return Stored(
        key,
        run.manifest().id,
        folder.path,
        result.verdict.level,
        result.measured_at,
        result.metrics,
    )


def _better(one: Stored, other: Stored | None) -> bool:
    if other is None:
        return True
    return (one.verdict == "valid", one.measured_at) > (other.verdict == "valid", other.measured_at)
