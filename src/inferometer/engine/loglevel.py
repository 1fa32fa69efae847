"""The level of a line of a log, whoever carried it here: stamps, names of processes, pods, hosts
and units stand before what the engine wrote, and a carrier may add a level of its own.

Lines are given in lower case. What is read is bounded, so that no line is tried for ever.
"""

from __future__ import annotations

import re
from typing import Literal

Level = Literal["", "quiet", "warning"]
"""`quiet` is information and below, and nothing is an error or a line without a level."""
MAX_PARTS = 16
"""Parts that stand before a message; more are a message."""

_WORDS = r"trace|debug|verbose|info|notice|warn(?:ing)?|err(?:or)?|crit(?:ical)?|fatal"
_BRACKETS = re.compile(r"[(\[]([^)\]]{0,200})[)\]][:,]?\s*(?:<\w+>:)?\s*")
_IN_BRACKETS = re.compile(rf"(?:.*\s)?({_WORDS}|[ivdtwef])|([iwef])\d{{3,4}} [\d:.]+ .*")
_NAMED = re.compile(rf"(?:[\w.]*?(warning)|({_WORDS}))\b[:\]]?\s*")
_GLOG = re.compile(r"([iwef])\d{4} [\d:.]+\s+\d+ ")
_LOGFMT = re.compile(r"(?:(?:time|ts)=\S+\s+)?level=(\w+)\s*")
_JSON = re.compile(r"\{.{0,400}?\"(?:level|levelname|severity|lvl)\": ?\"(\w+)\"")
_LETTER = re.compile(r"([iwedf]) ")
_DRESS = re.compile(
    r"\d[\d\-/:.,tz+]*\s+"  # a stamp, or the number of a task
    r"|[-|:]\s+"
    r"|[\w.-]{1,100}\s+\|\s*"  # a service of a composed deployment
    r"|[a-z0-9]+(?:-[a-z0-9]+){2,9}\s+[a-z0-9-]{1,60}\s+"  # a pod and its container
    r"|[a-z]{3} +\d+ [\d:]+ \S{1,100} [\w@.-]{1,100}\[\d+\]:\s*"  # a unit of the journal
    r"|[\w.-]{1,100}:\d+:\d+\s+"  # a host, a process and a thread
    r"|[\w./-]{1,300}:\d+(?::\d+)?:\s+"  # a file and its line
    r"|(?:nccl|rccl|nixl|ucx)\s+(?=info|trace|debug)"
)
_RAISED = re.compile(r"(?:[a-z_]\w*\.)*[a-z_]\w*(?:error|exception|outofresources)\b")


def level_of(line: str) -> Level:
    """What a line of lower case says of its own weight. The innermost level counts, as a carrier
    knows nothing of what it carries; an exception's own line is none of information.
    """
    if (found := _LOGFMT.match(line) or _JSON.match(line)) is not None:
        return _weight(found[1])
    level: Level = ""
    at = 0
    for _ in range(MAX_PARTS):
        said, end = _part(line, at)
        if end == at:
            break
        at = end
        if said:
            level = _weight(said)
            if level != "quiet":
                return level
    return "" if level == "quiet" and _RAISED.match(line, at) else level


def _part(line: str, at: int) -> tuple[str, int]:
    """The level that the next part names, if any, and where the part ends: at its begin for a
    message.
    """
    if found := _BRACKETS.match(line, at):
        inner = _IN_BRACKETS.fullmatch(found[1])
        return (inner[1] or inner[2] if inner else ""), found.end()
    for each in (_GLOG, _LETTER if at else _GLOG, _NAMED):
        if found := each.match(line, at):
            return next(filter(None, found.groups())), found.end()
    found = _DRESS.match(line, at)
    return "", found.end() if found else at


def _weight(word: str) -> Level:
    if word.startswith("w"):
        return "warning"
    return "quiet" if word[0] in "ivdtn" else ""
