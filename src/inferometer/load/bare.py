"""Processes of ours that are a module and one end of a socket pair: the end of the pair ends them.

Not `multiprocessing`: that imports the main program anew in each, and starts a helper of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def start_bare(module: str, end: int) -> subprocess.Popen[bytes]:
    """`python -m MODULE END`, with this very package; what is ignored of signals stays ignored."""
    return subprocess.Popen(
        [sys.executable, "-m", module, str(end)],
        pass_fds=(end,),
        stdin=subprocess.DEVNULL,
        env=own_env(),
    )


def own_env() -> dict[str, str]:
    """This environment, in which a new interpreter finds this very package."""
    package = str(Path(__file__).resolve().parents[2])
    known = os.environ.get("PYTHONPATH")
    path = package if not known else f"{package}{os.pathsep}{known}"
    return {**os.environ, "PYTHONPATH": path}
