"""Reads Mooncake traces: JSON lines of arrivals, lengths, and hashes of blocks of 512 tokens.

A row without `session_id` is a session of one turn; its block ids are common to the whole trace, as
the recorder hashed them. Rows with one are the turns of a conversation, one after the other.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from inferometer.core import Session, Turn
from inferometer.errors import Problem
from inferometer.workload.hashes import Ids
from inferometer.workload.mooncake_rows import MooncakeRow, rows, votes
from inferometer.workload.oneturn import single
from inferometer.workload.reading import Placed, Reader, Reading

BLOCK_SIZE = 512
MS = 1_000_000
"""Nanoseconds."""
NO_IDS: Ids = np.empty(0, np.int64)
_KEYS = re.compile(rb'"input_length"\s*:')
_MOST = 2**63 - 1


def _claims(head: bytes) -> bool:
    return _KEYS.search(head) is not None


def _read(file: Path, reading: Reading) -> Iterator[Placed]:
    yield from _Trace(file, reading).sessions()


MOONCAKE = Reader("mooncake", _claims, _read)


class _Trace:
    """One file under way. Holds the rows of sessions whose last row has not come yet."""

    def __init__(self, file: Path, reading: Reading) -> None:
        self._file = file
        self._name = file.name
        self._reading = reading
        self._size = reading.options.block_size or BLOCK_SIZE
        self._votes = votes(file)
        self._left = dict(self._votes.rows_of)
        self._open: dict[str, list[MooncakeRow]] = defaultdict(list)
        self._bad: set[str] = set()
        self._delta = self._is_delta()
        self._latest_ms = 0.0

    def sessions(self) -> Iterator[Placed]:
        """Sessions in order of their last row."""
        empty = True
        for row in rows(self._file, self._size, self._reading):
            empty = False
            if isinstance(row, MooncakeRow) and self._in_order(row):
                yield from self._taken(row)
            else:
                yield from self._lost(row.session if isinstance(row, MooncakeRow) else row)
        if empty:
            self._reading.fault(Problem("expected rows, the file is empty", str(self._file)))
        for name in list(self._open):  # a row of it could not be read, not even its session
            yield from self._ended(name)

    def _is_delta(self) -> bool:
        asked, said = self._reading.options.rows, self._votes
        delta = said.delta > said.cumulative if asked == "auto" else asked == "delta"
        if said.rows_of:
            taken = "rows_delta" if delta else "rows_cumulative"
            self._reading.tally[taken] += sum(said.rows_of.values())
            self._reading.tally["rows_disagreeing"] += said.cumulative if delta else said.delta
        return delta

    def _in_order(self, row: MooncakeRow) -> bool:
        """Whether a row's time is not before that of the row above it."""
        if row.at_ms is None:
            return True
        if row.at_ms < self._latest_ms:
            text = f"{row.at_ms} is before {self._latest_ms} of a row above it"
            self._reading.fault(Problem(text, str(self._file), row.line, "timestamp"))
            return False
        self._latest_ms = row.at_ms
        return True

    def _taken(self, row: MooncakeRow) -> Iterator[Placed]:
        if row.session is None:
            session = self._session(f"{self._name}:{row.line}", [row])
            yield Placed(session, row.line, named=False)
            return
        self._open[row.session].append(row)
        yield from self._counted(row.session)

    def _lost(self, name: str | None) -> Iterator[Placed]:
        """A row with problems spoils its session."""
        if name is None:
            self._reading.tally["skipped"] += 1
            return
        self._bad.add(name)
        yield from self._counted(name)

    def _counted(self, name: str) -> Iterator[Placed]:
        self._left[name] = self._left.get(name, 1) - 1
        if self._left[name] <= 0:
            yield from self._ended(name)

    def _ended(self, name: str) -> Iterator[Placed]:
        own = self._open.pop(name, [])
        if name in self._bad or not own:
            self._reading.tally["skipped"] += 1
        else:
            yield Placed(self._session(name, own), own[0].line)

    def _session(self, name: str, own: Sequence[MooncakeRow]) -> Session:
        first = own[0]
        common = _bound(own[:1] if self._delta_of(own) else own)
        turns = self._turns(own)
        for row in own:
            self._tally(row)
        self._reading.tally["api_time_unknown"] += len(own) - 1
        start_ns = None if first.at_ms is None else round(first.at_ms * MS)
        return Session(name, self._size, turns, start_ns, common)

    def _delta_of(self, own: Sequence[MooncakeRow]) -> bool:
        return self._delta and len(own) > 1

    def _turns(self, own: Sequence[MooncakeRow]) -> tuple[Turn, ...]:
        contexts = self._contexts(own)
        turns: list[Turn] = []
        for row, (ids, tokens) in zip(own, contexts, strict=True):
            turn = single(ids, tokens, max(1, row.output), row.extra)
            if turns:
                index = len(turns)
                gap_ns = _gap_ns(own[index - 1], row)
                turn = replace(turn, index=index, after=(index - 1,), gap_ns=gap_ns)
            turns.append(turn)
        return tuple(turns)

    def _contexts(self, own: Sequence[MooncakeRow]) -> list[tuple[Ids, int]]:
        """Block ids and tokens of each turn's whole prompt."""
        if self._delta_of(own):
            return self._summed(own)
        # Rows without ids share what lies before: a conversation only grows.
        bare = max((row.tokens for row in own if row.ids is None), default=0)
        made = _made(_bound(own), bare // self._size) if bare else NO_IDS
        return [
            ((made if row.ids is None else row.ids)[: row.tokens // self._size], row.tokens)
            for row in own
        ]

    def _summed(self, own: Sequence[MooncakeRow]) -> list[tuple[Ids, int]]:
        """Each prompt is the one before, its reply, and what the row adds."""
        tokens, totals = 0, []
        for row in own:
            totals.append(tokens + row.tokens)
            tokens += row.tokens + row.output
        first = own[0].ids
        begin = NO_IDS if first is None else first[: totals[0] // self._size]
        # Later blocks start where the one before ends, not where the recorder hashed from.
        above = int(begin.max(initial=-1)) + 1
        whole = np.concatenate([begin, _made(above, totals[-1] // self._size - len(begin))])
        return [(whole[: total // self._size], total) for total in totals]

    def _tally(self, row: MooncakeRow) -> None:
        tally = self._reading.tally
        tally["zero_output"] += row.output == 0
        if row.ids is None:
            tally["hash_none"] += 1
        else:
            whole = row.tokens // self._size
            tally["hash_floor" if len(row.ids) == whole else "hash_ceil"] += 1


def _bound(own: Sequence[MooncakeRow]) -> int:
    """One more than the highest id; 0 without ids."""
    return min(1 + max(row.highest for row in own), _MOST)


def _made(above: int, count: int) -> Ids:
    """Ids that no row has: from a number on, or the last ones there are."""
    first = min(above, _MOST - count)
    return np.arange(first, first + count, dtype=np.int64)


def _gap_ns(before: MooncakeRow, row: MooncakeRow) -> int:
    """From the end of the row before; that it took no time is all that two starts can say."""
    if row.delay_ms is not None:
        return round(row.delay_ms * MS)
    if row.at_ms is None or before.at_ms is None:
        return 0
    return round((row.at_ms - before.at_ms) * MS)
