"""What a workload is called by: the family of what a text names, by kind and by format.

Looks at the beginning of files, never at all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from inferometer.errors import InputError
from inferometer.workload.azure import AZURE
from inferometer.workload.corpus import HEAD, told_reader
from inferometer.workload.files import head, trace_files
from inferometer.workload.made import made
from inferometer.workload.mooncake import MOONCAKE
from inferometer.workload.sessionfile import SESSIONS, SESSIONS_FAMILY
from inferometer.workload.sources import PathSource, source_of
from inferometer.workload.weka import WEKA

AGENTIC = "agentic"
OF_FORMAT: Mapping[str, str] = MappingProxyType(
    {WEKA.name: AGENTIC, MOONCAKE.name: "mooncake", AZURE.name: "azure"}
)
"""Our own format says it of itself."""
_FAMILY = re.compile(rb'"family"\s*:\s*"([a-z0-9-]{1,40})"')


def family_of(source: str) -> str:
    """`agentic`, the kind of a made workload, or the name of what was recorded.

    Files of several families are `sessions`, as our own are that do not say. Raises InputError
    where there is no such source.
    """
    drawn = made(source)
    if drawn is not None:
        return drawn.kind
    found = source_of(source)
    if not isinstance(found, PathSource):
        return AGENTIC
    families = {_of_file(file, found.options.format) for file in trace_files(Path(found.path))}
    return families.pop() if len(families) == 1 else SESSIONS_FAMILY


def _of_file(file: Path, asked: str | None) -> str:
    try:
        begin = head(file, HEAD)
        name = asked or told_reader(begin, file).name
    except InputError:
        return AGENTIC  # told when it is read
    if name != SESSIONS.name:
        return OF_FORMAT[name]
    said = _FAMILY.search(begin.lstrip().split(b"\n", 1)[0])
    return said[1].decode() if said else SESSIONS_FAMILY
