"""Processes of ours that are a module and one end of a socket pair: the end of the pair ends them.

Not `multiprocessing`: that imports the main program anew in each, and starts a helper of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_START = (
    "import gc, os, sys; from importlib import import_module; gc.disable();"
    "main = import_module(sys.argv.pop(1)).main; gc.freeze(); gc.enable(); main();"
    "sys.stdout.flush(); sys.stderr.flush(); os._exit(0)"
)
"""What stays is not searched for garbage while it is imported, and not taken down at the end: of a
process that starts and ends, that is a fifth of the cost.
"""

UNTHREADED = {"OPENBLAS_NUM_THREADS": "1"}
"""To start them, and to end them, is some 20 ms of CPU a process."""


def start_bare(module: str, end: int) -> subprocess.Popen[bytes]:
    """`python -m MODULE END` but cheaper, with this very package; nothing runs `atexit`. What is
    ignored of signals stays ignored.
    """
    return subprocess.Popen(
        [sys.executable, "-c", _START, module, str(end)],
        pass_fds=(end,),
        stdin=subprocess.DEVNULL,
        env=own_env(),
    )


def own_env() -> dict[str, str]:
    """This environment, in which a new interpreter finds this very package, and numpy makes no
    threads for a linear algebra that nobody here has.
    """
    package = str(Path(__file__).resolve().parents[2])
    known = os.environ.get("PYTHONPATH")
    path = package if not known else f"{package}{os.pathsep}{known}"
    return {**UNTHREADED, **os.environ, "PYTHONPATH": path}
