"""What a rule covers in a corpus that was read: sound, and worth a sentence each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from inferometer.core import Session
from inferometer.workload.reading import ReadReport

SENTENCES: Mapping[str, str] = {
    "hash_ceil": "requests have an id for their partial last block; it is dropped",
    "hash_none": "requests have no block ids; they share nothing, except within a session",
    "zero_input": "requests were recorded without input; one token is sent",
    "zero_output": "requests were recorded without output; one token is asked for",
    "output_unknown": "requests do not say how much came back; one token is asked for",
    "api_time_inferred": "requests do not say how long they took; it was taken from the next one",
    "api_time_unknown": "requests do not say how long they took; the gap after them is too long",
    "early_starts": "turns began before a predecessor had ended; their gap is 0",
    "inversions": "requests are listed up to a second out of order; they were put in order",
    "odd_status": "sub-agents have a status other than completed; they are taken to have returned",
    "ends_inferred": "sub-agents say neither how long they ran nor how they ended; they ran until "
    "their last request had ended",
    "empty_subagents": "sub-agents have no request of their own; they are left out",
    "empty_sessions": "sessions have no request of the root agent; they are left out",
    "unnamed": "sessions have no id; they are called after their file",
    "scope_assumed": "sessions do not say whose their block ids are; they are taken for their own",
    "duplicates": "sessions were read before, from another place; they are left out",
    "renamed": "sessions have the id of another one; they got a number behind it",
    "near_overlaps": "requests overlap the next one by under a second; no edge joins them",
    "fanned_agents": "agents were not declared, and recovered from shared prefixes",
    "rows_disagreeing": "rows speak against how the rows of sessions were taken; ask with --rows",
    "renumbered": "sessions had ids too large to keep; they were numbered anew",
    "skipped": "sessions were left out for their problems",
}
"""Counts of the report that are worth telling, in the order in which they are told."""


def headline(source: str, report: ReadReport, formats: Mapping[str, int]) -> str:
    """What a source holds, in a line."""
    files = ", ".join(f"{count} {name}" for name, count in sorted(formats.items()))
    return f"{source}: {report.sessions:,} sound sessions, {report.turns:,} turns ({files})"


def over_long(sessions: Iterable[Session], limit: int) -> int:
    """Turns that a context of so many tokens, input and output together, does not hold."""
    return sum(
        turn.input_tokens + turn.output_tokens > limit
        for session in sessions
        for turn in session.turns
    )


def told_over_long(count: int, limit: int) -> str:
    """The sentence for them."""
    return f"{count:,} turns exceed {limit:,} tokens, input and output together"


def caveats(report: ReadReport) -> tuple[str, ...]:
    """One sentence a count that is not 0."""
    told = [
        f"{count:,} {sentence}"
        for name, sentence in SENTENCES.items()
        if (count := int(getattr(report, name)))
    ]
    for name, count in report.unknown_fields.items():
        told.append(f"{count:,} times a field that the format does not have so: {name}")
    if report.rows_cumulative or report.rows_delta:
        kind = "what each adds (delta)" if report.rows_delta else "whole contexts (cumulative)"
        count = report.rows_delta or report.rows_cumulative
        told.append(f"{count:,} rows of sessions were taken to be {kind}")
    return tuple(told)
