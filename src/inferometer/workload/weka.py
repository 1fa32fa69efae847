"""Reads agentic sessions in the weka trace format into graphs of turns.

Strict: a file that does not follow the format is refused with all its problems, each with its JSON
path. Nothing is guessed silently: what had to be inferred or left out is counted in `ReadReport`.
Does not recover fan-outs that the recorder did not declare as sub-agents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson

from inferometer.core import Session, Turn
from inferometer.errors import InputError, Problem
from inferometer.workload.graph import ROOT, Recorded, RecordedAgent, build_graph
from inferometer.workload.prompts import MAX_LOCAL_ID
from inferometer.workload.sharing import shared
from inferometer.workload.weka_schema import IDS, Row, TraceCheck
from inferometer.workload.weka_times import (
    Interval,
    intervals,
    is_background,
    run_of,
    stamped_at_end,
)

MAX_PROBLEMS_PER_FILE = 20


@dataclass(frozen=True, slots=True)
class ReadReport:
    """What was read, and what had to be decided on the way; all counts."""

    sessions: int
    turns: int
    subagents: int
    background_subagents: int
    api_time_inferred: int
    api_time_unknown: int
    """Requests whose end is taken to be their start, so that the gap after them is too long."""
    zero_output: int
    """Requests recorded with no output; one token is asked for."""
    hash_floor: int
    """Requests whose ids cover the whole blocks of `in`."""
    hash_ceil: int
    """Requests with an id for the partial last block too; that id is dropped."""
    hash_short: int
    """Requests with fewer ids than whole blocks; the rest of the prompt shares nothing."""
    nested_relative: int
    nested_absolute: int
    """Sub-agents by the time base of their requests."""
    stamped_at_end: int
    stamped_at_start: int
    """Joined sub-agents by what their `t` was found to be."""
    early_starts: int
    """Turns recorded to start before a predecessor had ended; their gap is 0."""
    near_overlaps: int
    """Neighbours that overlap by under 1 s, to which times are recorded; they get no edge."""
    renumbered: int
    """Sessions whose block ids were too large and were numbered anew."""
    unknown_fields: Mapping[str, int]
    """Fields that the format does not have, left out."""


class Corpus(NamedTuple):
    """The sessions of a path, ordered by file name and line, and the account of reading them."""

    sessions: tuple[Session, ...]
    report: ReadReport


class _Trace(NamedTuple):
    """One parsed trace and where it stands."""

    row: Row
    file: str
    line: int | None


def trace_files(path: Path) -> tuple[Path, ...]:
    """The files a path stands for, sorted by name. Raises InputError when there are none."""
    if path.is_file():
        return (path,)
    if not path.is_dir():
        raise InputError(Problem("no such file or directory", str(path)))
    files = tuple(sorted(p for p in path.iterdir() if p.suffix in (".json", ".jsonl")))
    if not files:
        raise InputError(Problem("expected .json or .jsonl files, found none", str(path)))
    return files


def read_weka(path: Path) -> tuple[Session, ...]:
    """The sessions of a directory, of one .json (one session) or of one .jsonl (one a line)."""
    return read_corpus(path).sessions


def read_corpus(path: Path) -> Corpus:
    """As `read_weka`, with the report. Raises InputError with the problems of every file."""
    problems: list[Problem] = []
    unknown: Counter[str] = Counter()
    traces: list[_Trace] = []
    for file in trace_files(path):
        check = TraceCheck(str(file))
        traces += _read_file(file, check)
        problems += _capped(check.problems, str(file))
        unknown += check.unknown
    problems += _repeated(traces, problems)
    if problems:
        raise InputError(*problems)
    tally: Counter[str] = Counter()
    sessions = tuple(_session(trace.row, tally) for trace in traces)
    return Corpus(sessions, _report(tally, unknown))


def bytes_of(file: Path) -> bytes:
    """The content of a file. Raises InputError when it cannot be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(Problem(error.strerror or "cannot be read", str(file))) from error


def _read_file(file: Path, check: TraceCheck) -> Iterator[_Trace]:
    data = bytes_of(file)
    if file.suffix != ".jsonl":
        texts: list[tuple[int | None, bytes]] = [(None, data)]
    else:
        texts = [(n, line) for n, line in enumerate(data.splitlines(), 1) if line.strip()]
    if not any(text.strip() for _, text in texts):
        check.problems.append(Problem("expected a trace, the file is empty", str(file)))
        return
    for line, text in texts:
        try:
            row = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            place = error.lineno if line is None else line
            message = f"not valid JSON at column {error.colno}: {error.msg}"
            check.problems.append(Problem(message, str(file), place))
            continue
        before = len(check.problems)
        check.trace(row, line)
        if len(check.problems) == before:
            _share(row["requests"])
            yield _Trace(row, str(file), line)


def _share(rows: Sequence[Row]) -> None:
    """Keep the ids of each agent's conversation once."""
    own = [row for row in rows if row["type"] != "subagent"]
    for row, ids in zip(own, shared([row[IDS] for row in own]), strict=True):
        row[IDS] = ids  # type: ignore[index]
    for row in rows:
        if row["type"] == "subagent":
            _share(row["requests"])


def _capped(problems: Sequence[Problem], file: str) -> list[Problem]:
    shown = list(problems[:MAX_PROBLEMS_PER_FILE])
    if len(problems) > len(shown):
        shown.append(Problem(f"and {len(problems) - len(shown)} more problems", file))
    return shown


def _repeated(traces: Sequence[_Trace], problems: Sequence[Problem]) -> Iterator[Problem]:
    if problems:
        return
    seen: dict[str, _Trace] = {}
    for trace in traces:
        name = trace.row["id"]
        if name in seen:
            other = seen[name]
            place = other.file if other.line is None else f"{other.file}:{other.line}"
            yield Problem(f"session {name!r} was already read from {place}", *trace[1:], "id")
        seen[name] = trace


def _session(trace: Row, tally: Counter[str]) -> Session:
    rows = sorted(trace["requests"], key=lambda row: row["t"])
    size = trace["block_size"]
    root_rows = [row for row in rows if row["type"] != "subagent"]
    spans = intervals(root_rows, tally)
    root = RecordedAgent(ROOT, _requests(root_rows, spans, size, tally), spans[0].start_ns, None)
    graph = build_graph(root, _subagents(rows, spans, size, tally))
    turns = _renumbered(graph.turns, tally)
    tally["early_starts"] += graph.early_starts
    tally["sessions"] += 1
    tally["turns"] += len(turns)
    return Session(trace["id"], size, turns)


def _subagents(
    rows: Sequence[Row], root: Sequence[Interval], size: int, tally: Counter[str]
) -> list[RecordedAgent]:
    at_end = stamped_at_end(rows, root)
    agents: list[RecordedAgent] = []
    before = 0
    for row in rows:
        if row["type"] != "subagent":
            before += 1
        elif row["requests"]:
            name = f"{ROOT}/{(row.get('subagent_type') or 'agent').lower()}-{len(agents) + 1}"
            joined_by = None if is_background(row) or before == len(root) else before
            agents.append(_subagent(row, name, joined_by, at_end, size, tally))
    return agents


def _subagent(
    row: Row, name: str, joined_by: int | None, at_end: bool, size: int, tally: Counter[str]
) -> RecordedAgent:
    nested = sorted(row["requests"], key=lambda request: request["t"])
    own = intervals(nested, tally)
    run = run_of(row, own, at_end)
    spans = [Interval(start + run.offset_ns, end + run.offset_ns) for start, end in own]
    tally["subagents"] += 1
    tally["nested_relative" if run.offset_ns == run.launch_ns else "nested_absolute"] += 1
    if is_background(row):
        tally["background_subagents"] += 1
    else:
        tally["stamped_at_end" if at_end else "stamped_at_start"] += 1
    return RecordedAgent(name, _requests(nested, spans, size, tally), run.launch_ns, joined_by)


def _requests(
    rows: Sequence[Row], spans: Sequence[Interval], size: int, tally: Counter[str]
) -> tuple[Recorded, ...]:
    found = []
    for row, span in zip(rows, spans, strict=True):
        ids, whole = row[IDS], row["in"] // size
        kind = "floor" if len(ids) == whole else "ceil" if len(ids) > whole else "short"
        tally[f"hash_{kind}"] += 1
        tally["zero_output"] += row["out"] == 0
        found.append(Recorded(*span, ids[:whole], row["in"], max(1, row["out"])))
    return tuple(found)


def _renumbered(turns: tuple[Turn, ...], tally: Counter[str]) -> tuple[Turn, ...]:
    """Ids that would not fit beside a play's key are replaced by their rank within the session."""
    ids = np.concatenate([turn.block_ids for turn in turns])
    if not len(ids) or ids.max() <= MAX_LOCAL_ID:
        return turns
    tally["renumbered"] += 1
    ranks = np.unique(ids, return_inverse=True)[1].astype(np.int64)
    cuts = np.cumsum([len(turn.block_ids) for turn in turns])[:-1]
    parts = np.split(ranks, cuts)
    return tuple(replace(turn, block_ids=part) for turn, part in zip(turns, parts, strict=True))


def _report(tally: Counter[str], unknown: Counter[str]) -> ReadReport:
    names = [field.name for field in fields(ReadReport) if field.name != "unknown_fields"]
    return ReadReport(**{name: tally[name] for name in names}, unknown_fields=dict(unknown))
