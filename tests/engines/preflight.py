"""Whether the engines' environment can be installed here, before gigabytes of it are fetched.

`python preflight.py LIST FOLDER`, by the interpreter of the new environment: its version and
machine, the space on FOLDER's disk, and the one requirement that PyPI has not. Ends with code 1 and
every reason.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

PYTHON = (3, 11)
MACHINE = ("Linux", "x86_64")
NEEDED_BYTES = 8 << 30
"""3.3 GB installed, and as much again while wheels are unpacked."""
TORCH = re.compile(r"^torch==(\S+)", re.MULTILINE)
WHERE = (
    "pip finds torch {version}, its build for CPUs, nowhere: PyPI has not got it. Tell pip where "
    "it is, by PIP_EXTRA_INDEX_URL (PyTorch's own index for CPUs) or by PIP_FIND_LINKS (a folder "
    "with the wheel), or give an environment that has vLLM: INFEROMETER_ENGINES_ENV=DIR make "
    "test-engines. Pip says: {said}"
)


def problems(listed: str, free_bytes: int, refused: str | None) -> list[str]:
    """Everything that stands in the way, in words. `refused`: what pip says of that torch."""
    found = []
    here = (platform.system(), platform.machine())
    if sys.version_info[:2] != PYTHON or here != MACHINE:
        found.append(
            f"the list is for Python {PYTHON[0]}.{PYTHON[1]} on {' '.join(MACHINE)}, and this is "
            f"{platform.python_version()} on {' '.join(here)} (make test-engines PYTHON=python3.11)"
        )
    if free_bytes < NEEDED_BYTES:
        free, needed = free_bytes >> 30, NEEDED_BYTES >> 30
        found.append(f"{free} GiB are free on the disk, {needed} are needed")
    if refused is not None:
        found.append(WHERE.format(version=torch_version(listed), said=refused))
    return found


def torch_version(listed: str) -> str:
    """The version of torch that a list of requirements pins. Raises ValueError without one."""
    if (pinned := TORCH.search(listed)) is None:
        raise ValueError("the list pins no torch")
    return pinned[1]


def pip_refuses(requirement: str) -> str | None:
    """Why pip would not install it, None where it would: nothing is installed, and no wheel of an
    index that has metadata is fetched.
    """
    words = ["install", "--dry-run", "--no-deps", "--ignore-installed", "--only-binary", ":all:"]
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*pip, *words, requirement], capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return (said or ["no reason"])[-1] if done.returncode else None


def main() -> None:
    """Say what is missing, or nothing."""
    listed, folder = Path(sys.argv[1]).read_text(), Path(sys.argv[2])
    refused = pip_refuses(f"torch=={torch_version(listed)}")
    found = problems(listed, shutil.disk_usage(folder).free, refused)
    for text in found:
        sys.stderr.write(f"engines: {text}\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
