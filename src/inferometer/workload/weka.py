"""Reads agentic sessions in the weka trace format into graphs of turns.

Strict: a trace that does not follow the format is refused with all its problems, each with its JSON
path. Nothing is guessed silently: what had to be inferred or left out is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import orjson

from inferometer.clock import NS
from inferometer.core import Session
from inferometer.errors import Problem
from inferometer.workload.fanout import Call, recover
from inferometer.workload.files import texts
from inferometer.workload.graph import ROOT, Recorded, RecordedAgent, build_graph
from inferometer.workload.hashes import Ids, Parsed, kept_once
from inferometer.workload.reading import Placed, Reader, Reading
from inferometer.workload.weka_schema import EXTRA, IDS, Row, TraceCheck, has_no_end, is_subagent
from inferometer.workload.weka_times import (
    Interval,
    intervals,
    is_background,
    joining,
    run_of,
    stamped_at_end,
)

AGENT = "subagent"
"""What fields of a sub-agent are called among those of its first request."""
MOST_LETTERS = 60
_ODD = re.compile(r"[^\w.:+-]+")
_KEYS = re.compile(rb'"(?:hash_id_scope|requests)"\s*:')


def _claims(head: bytes) -> bool:
    return _KEYS.search(head) is not None


def _read(file: Path, reading: Reading) -> Iterator[Placed]:
    """A session a file, or one a line."""
    found = False
    for line, text in texts(file):
        found = True
        session = _trace(text, str(file), line, reading)
        if session is not None:
            yield Placed(session, line)
    if not found:
        reading.fault(Problem("expected a trace, the file is empty", str(file)))


WEKA = Reader("weka", _claims, _read)


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
        reading.tally["skipped"] += 1
        return None
    reading.unknown += check.unknown
    reading.tally += check.tally
    reading.tally["unnamed"] += check.value.get("id") is None
    name = Path(file).name if line is None else f"{Path(file).name}:{line}"
    return _session(check.value, reading, name)


def _session(trace: Row, reading: Reading, name: str) -> Session | None:
    """The session of a sound trace, `name` where it has none itself; None, and counted, where its
    root sends nothing.
    """
    rows = sorted(trace["requests"], key=lambda row: row["t"])
    scope = _Scope(trace["block_size"], reading)
    own = [row for row in rows if not is_subagent(row)]
    if not own:
        reading.tally["empty_sessions"] += 1
        return None
    spans = intervals(own, reading.tally)
    root = RecordedAgent(ROOT, scope.requests(own, spans), spans[0].start_ns, None)
    below = _Below(scope)
    below.add(ROOT, rows, spans)
    graph = build_graph(root, below.agents)
    reading.tally["early_starts"] += graph.early_starts
    extra = trace.get(EXTRA) if reading.keeps else None
    return Session(trace.get("id") or name, trace["block_size"], graph.turns, extra=extra)


class _Below:
    """The sub-agents of a trace, each behind its parent."""

    def __init__(self, scope: _Scope) -> None:
        self.agents: list[RecordedAgent] = []
        self._scope = scope

    def add(self, parent: str, rows: Sequence[Row], spans: Sequence[Interval]) -> None:
        """Those of one agent, whose rows are ordered by `t` and whose requests had these spans."""
        at_end = stamped_at_end(rows, spans)
        before = 0
        for row in rows:
            if not is_subagent(row):
                before += 1
            elif any(not is_subagent(each) for each in row.get("requests") or ()):
                self._add(row, parent, spans, before, at_end)
            else:
                self._scope.reading.tally["empty_subagents"] += 1

    def _add(
        self, row: Row, parent: str, spans: Sequence[Interval], before: int, at_end: bool
    ) -> None:
        tally = self._scope.reading.tally
        rows = sorted(row["requests"], key=lambda each: each["t"])
        requests = [each for each in rows if not is_subagent(each)]
        if EXTRA in row:  # an agent has no place of its own: its first request takes them along
            requests[0] = {**requests[0], EXTRA: {**requests[0].get(EXTRA, {}), AGENT: row[EXTRA]}}
        own = intervals(requests, tally)
        ended_ns = max((span.end_ns for span in spans[:before]), default=0)
        run = run_of(row, own, at_end, ended_ns)
        join = None if is_background(row) else joining(spans, before, run.end_ns)
        tally["subagents"] += 1
        tally["ends_inferred"] += has_no_end(row)
        tally["nested_relative" if run.offset_ns == run.launch_ns else "nested_absolute"] += 1
        if is_background(row) or (join is None and before < len(spans)):
            tally["background_subagents"] += 1
        else:
            tally["stamped_at_end" if at_end else "stamped_at_start"] += 1
        moved = [Interval(start + run.offset_ns, end + run.offset_ns, k) for start, end, k in own]
        name = f"{parent}/{_kind(row)}-{len(self.agents) + 1}"
        made = self._scope.requests(requests, moved)
        self.agents.append(RecordedAgent(name, made, run.launch_ns, join, parent))
        shifted = [{**each, "t": each["t"] + run.offset_ns / NS} for each in rows]
        self.add(name, shifted, moved)


def _kind(row: Row) -> str:
    """What a sub-agent is called after, in letters that no path and no name of ours gives a
    meaning.
    """
    kind = _ODD.sub("_", (row.get("subagent_type") or "agent").lower())[:MOST_LETTERS]
    return f"{kind}_" if kind == "fan" else kind


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
                input_tokens=max(1, row["in"]),
                output_tokens=max(1, row.get("out") or 0),
                known=span.known,
                chain=chain,
                extra=row.get(EXTRA) if self.reading.keeps else None,
            )
            for row, span, own, chain in zip(rows, spans, ids, chains, strict=True)
        )

    def _whole(self, row: Row) -> Ids:
        ids: Ids | None = row[IDS]
        tally, whole = self.reading.tally, row["in"] // self._size
        tally["zero_input"] += row["in"] == 0
        tally["zero_output"] += row.get("out") == 0
        tally["output_unknown"] += row.get("out") is None
        if ids is None:
            tally["hash_none"] += 1
            return np.empty(0, np.int64)
        tally["hash_floor" if len(ids) == whole else "hash_ceil"] += 1
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
