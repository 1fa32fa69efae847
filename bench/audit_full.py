"""CPU seconds of a whole audit of two sides: read, resolved, compared and judged, in one process.

Three cases: both sides equal; one image of the head another; a layer of the head that changes every
point, so that nothing is shared.

    python bench/audit_full.py amd-master.yaml nvidia-master.yaml --runners runners.yaml
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from inferometer.audit import Asked, Audit, examine
from inferometer.audit.tree import folder_tree
from inferometer.plan import allocations, expand_arms, load_configs

REPEATS = 5
SITE = "- workload: { seed: 43 }\n"


def side(folder: Path, masters: Sequence[Path], runners: Path) -> Path:
    """One side: the files in a directory of their own."""
    folder.mkdir()
    for path in (*masters, runners):
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def with_another_image(head: Path, name: str) -> None:
    """The first image of a master file gets another tag."""
    path = head / name
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if line.strip().startswith("image:"))
    lines[at] = lines[at].rstrip("\n") + "-2\n"
    path.write_text("".join(lines), encoding="utf-8")


def measured(base: Path, head: Path) -> tuple[float, float, Audit]:
    """Least CPU and wall seconds, since what else a machine does only adds, and the audit."""
    cpu, wall = [], []
    for _ in range(REPEATS):
        begun, clock = time.process_time(), time.perf_counter()
        found = examine(folder_tree(base), folder_tree(head), Asked())
        cpu.append(time.process_time() - begun)
        wall.append(time.perf_counter() - clock)
    return min(cpu), min(wall), found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("masters", nargs="+", type=Path)
    parser.add_argument("--runners", required=True, type=Path)
    options = parser.parse_args()
    configs = load_configs([str(path) for path in options.masters], str(options.runners))
    rows = len(allocations(expand_arms(configs)))
    with tempfile.TemporaryDirectory() as folder:
        base = side(Path(folder) / "base", options.masters, options.runners)
        head = side(Path(folder) / "head", options.masters, options.runners)
        print(f"{rows} rows a side; CPU and wall seconds, least of {REPEATS}, after imports")
        for case in ("equal sides", "one image", "every point"):
            if case == "one image":
                with_another_image(head, options.masters[0].name)
            if case == "every point":
                (head / "recipes").mkdir()
                (head / "recipes" / "site.yaml").write_text(SITE, encoding="utf-8")
            cpu, wall, found = measured(base, head)
            changed = len(found.comparison.changed)
            print(f"{case}: {cpu:.2f} s CPU, {wall:.2f} s, {changed} points changed")


if __name__ == "__main__":
    main()
