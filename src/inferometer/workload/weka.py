"""Reads agentic sessions in the weka trace format into graphs of turns.

Strict: a trace that does not follow the format is refused with all its problems, each with its JSON
path. Nothing is guessed silently: what had to be inferred or left out is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from inferometer.core import Session
from inferometer.errors import Problem
from inferometer.workload.fanout import Call, recover
from inferometer.workload.files import content, kind_of, lines
from inferometer.workload.graph import ROOT, Recorded, RecordedAgent, build_graph
from inferometer.workload.hashes import Ids, Parsed, kept_once
from inferometer.workload.reading import Placed, Reader, Reading
from inferometer.workload.weka_schema import IDS, Row, TraceCheck
from inferometer.workload.weka_times import (
    Interval,
    intervals,
    is_background,
    run_of,
    stamped_at_end,
)

_KEYS = re.compile(rb'"(?:hash_id_scope|requests)"\s*:')


def _claims(head: bytes) -> bool:
    return _KEYS.search(head) is not None


def _read(file: Path, reading: Reading) -> Iterator[Placed]:
    """A session a file, or one a line of a .jsonl."""
    found = False
    for line, text in _texts(file):
        found = True
        session = _trace(text, str(file), line, reading)
        if session is None:
            reading.tally["skipped"] += 1
        else:
            yield Placed(session, line)
    if not found:
        reading.fault(Problem("expected a trace, the file is empty", str(file)))


WEKA = Reader("weka", _claims, _read)


def _texts(file: Path) -> Iterator[tuple[int | None, bytes]]:
    if kind_of(file) == ".jsonl":
        yield from lines(file)
    elif (text := content(file)).strip():
        yield None, text


def _trace(text: bytes, file: str, line: int | None, reading: Reading) -> Session | None:
    """The session of one trace; None where it has problems, which are noted."""
    check = TraceCheck(file, line)
    try:
        check.trace(Parsed(text))
    except orjson.JSONDecodeError as error:
        place = error.lineno if line is None else line
        check.problems.append(
            Problem(f"not valid JSON at column {error.colno}: {error.msg}", file, place)
        )
    for problem in check.problems:
        reading.fault(problem)
    if check.problems:
        return None
    reading.unknown += check.unknown
    reading.tally += check.tally
    return _session(check.value, reading)


def _session(trace: Row, reading: Reading) -> Session:
    rows = sorted(trace["requests"], key=lambda row: row["t"])
    scope = _Scope(trace["block_size"], reading)
    root_rows = [row for row in rows if row["type"] != "subagent"]
    spans = intervals(root_rows, reading.tally)
    root = RecordedAgent(ROOT, scope.requests(root_rows, spans), spans[0].start_ns, None)
    graph = build_graph(root, _subagents(rows, spans, scope))
    reading.tally["early_starts"] += graph.early_starts
    return Session(trace["id"], trace["block_size"], graph.turns)


def _subagents(rows: Sequence[Row], root: Sequence[Interval], scope: _Scope) -> list[RecordedAgent]:
    at_end = stamped_at_end(rows, root)
    agents: list[RecordedAgent] = []
    before = 0
    for row in rows:
        if row["type"] != "subagent":
            before += 1
        elif row["requests"]:
            name = f"{ROOT}/{(row.get('subagent_type') or 'agent').lower()}-{len(agents) + 1}"
            joined_by = None if is_background(row) or before == len(root) else before
            agents.append(_subagent(row, name, joined_by, at_end, scope))
    return agents


def _subagent(
    row: Row, name: str, joined_by: int | None, at_end: bool, scope: _Scope
) -> RecordedAgent:
    tally = scope.reading.tally
    nested = sorted(row["requests"], key=lambda request: request["t"])
    own = intervals(nested, tally)
    run = run_of(row, own, at_end)
    spans = [Interval(start + run.offset_ns, end + run.offset_ns, k) for start, end, k in own]
    tally["subagents"] += 1
    tally["nested_relative" if run.offset_ns == run.launch_ns else "nested_absolute"] += 1
    if is_background(row):
        tally["background_subagents"] += 1
    else:
        tally["stamped_at_end" if at_end else "stamped_at_start"] += 1
    return RecordedAgent(name, scope.requests(nested, spans), run.launch_ns, joined_by)


class _Scope:
    """Makes recorded requests of rows: those of a root, or of one declared sub-agent."""

    def __init__(self, size: int, reading: Reading) -> None:
        self.reading = reading
        self._size = size

    def requests(self, rows: Sequence[Row], spans: Sequence[Interval]) -> tuple[Recorded, ...]:
        """The requests in order, each with its whole blocks and the agent it belongs to."""
        ids = kept_once([self._whole(row) for row in rows])
        chains = self._chains(spans, ids)
        return tuple(
            Recorded(
                start_ns=span.start_ns,
                end_ns=span.end_ns,
                block_ids=own,
                input_tokens=row["in"],
                output_tokens=max(1, row["out"]),
                known=span.known,
                chain=chain,
            )
            for row, span, own, chain in zip(rows, spans, ids, chains, strict=True)
        )

    def _whole(self, row: Row) -> Ids:
        ids: Ids = row[IDS]
        whole = row["in"] // self._size
        self.reading.tally["hash_floor" if len(ids) == whole else "hash_ceil"] += 1
        self.reading.tally["zero_output"] += row["out"] == 0
        return ids[:whole]

    def _chains(self, spans: Sequence[Interval], ids: Sequence[Ids]) -> Sequence[int]:
        if not self.reading.options.fan_out:
            return [0] * len(spans)
        found = recover(
            [Call(s.start_ns, s.end_ns, own) for s, own in zip(spans, ids, strict=True)]
        )
        tally = self.reading.tally
        tally["fanned_agents"] += found.agents
        tally["fanned_turns"] += sum(chain > 0 for chain in found.chains)
        tally["fanned_parallel"] += found.parallel
        tally["context_resets"] += found.resets
        return found.chains
