"""CPU seconds from config files to rows: parsed, checked, expanded, marked, in one process.

With --reference, the root of an InferenceX checkout, its own generator is timed on the same files:
also its process's own CPU, less that of an interpreter that only imports what it imports.

    python bench/plan_matrix.py amd-master.yaml nvidia-master.yaml --runners runners.yaml
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from inferometer.plan import expand_arms, load_configs, reference_rows
from inferometer.plan.clashes import clashes

REPEATS = 5
GENERATOR = Path("utils/matrix_logic/generate_sweep_configs.py")


def plan(masters: Sequence[str], runners: str) -> int:
    """Everything that `inferometer plan` does but print; the number of rows."""
    configs = load_configs(masters, runners)
    arms = expand_arms(configs)
    clashes(configs, [point for arm in arms for point in arm])
    return len(reference_rows(arms))


def own_cpu_s(work: Callable[[], object]) -> float:
    """CPU seconds of this process while `work` runs."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def child_cpu_s(argv: Sequence[str], folder: Path) -> float:
    """CPU seconds, user and system, of a process that ends."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def median(measure: Callable[[], float]) -> float:
    """Of REPEATS measurements."""
    return statistics.median(measure() for _ in range(REPEATS))


def reference_s(checkout: Path, masters: Sequence[str], runners: str) -> float:
    """CPU seconds of the reference's generator after its imports."""
    files = ["--config-files", *masters, "--runner-config", runners]
    folder = checkout / GENERATOR.parent
    whole = [sys.executable, GENERATOR.name, "full-sweep", *files]
    imports = [sys.executable, "-c", "import generate_sweep_configs"]
    return median(lambda: child_cpu_s(whole, folder)) - median(lambda: child_cpu_s(imports, folder))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("masters", nargs="+", type=Path)
    parser.add_argument("--runners", required=True, type=Path)
    parser.add_argument("--reference", type=Path, help="root of an InferenceX checkout")
    options = parser.parse_args()
    masters = [str(path.resolve()) for path in options.masters]
    runners = str(options.runners.resolve())
    rows = plan(masters, runners)
    ours = median(lambda: own_cpu_s(lambda: plan(masters, runners)))
    print(f"{rows} rows in {ours:.3f} s CPU (median of {REPEATS}, after imports)")
    if options.reference is None:
        print("not compared: no --reference checkout given")
        return
    theirs = reference_s(options.reference, masters, runners)
    print(f"reference: {theirs:.3f} s CPU, {theirs / ours:.1f} times as much")


if __name__ == "__main__":
    main()
