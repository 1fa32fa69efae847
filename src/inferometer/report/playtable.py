"""The sessions that were played at a point, as a table of its page: the longest first."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from inferometer.analyze.playtable import PlayRow
from inferometer.report.fields import UNKNOWN

MOST_PLAYS = 200
"""Rows of the table."""
_WORDS = ("Session", "Records")
_HEADS = (
    *(*_WORDS, "Lane", "Play", "Requests", "Failed", "Drained", "Start s", "Makespan s"),
    *("Critical path s", "Join wait s", "Recorded gaps s", "Achieved gaps s", "Input", "Output"),
)


def plays_section(plays: Sequence[PlayRow]) -> str:
    """A fold with the table; nothing where every session was one request."""
    if all(play.requests == 1 for play in plays):
        return ""
    rows = sorted(plays, key=lambda play: -play.makespan_s)[:MOST_PLAYS]
    many = f"{len(rows)} of {len(plays):,}" if len(rows) < len(plays) else f"{len(plays):,}"
    head = "".join(
        f"<th scope='col'{' class=word' if name in _WORDS else ''}>{name}</th>" for name in _HEADS
    )
    return (
        "<details class='requests' id='sessions'>"
        f"<summary>{many} sessions as a table, the longest first</summary>"
        "<div class='table-box'><table class='numbers'><caption class='unseen'>Sessions</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(map(_row, rows))}</tbody></table></div>"
        "</details>"
    )


def _row(play: PlayRow) -> str:
    drained = UNKNOWN if play.drained is None else "yes"
    counts = (str(play.lane), str(play.play), f"{play.requests:,}", f"{play.failed:,}", drained)
    times = (
        *(play.start_s, play.makespan_s, play.critical_path_s, play.join_wait_s),
        *(play.recorded_gap_s, play.achieved_gap_s),
    )
    cells = (
        *counts,
        *(f"{value:,.3f}" for value in times),
        f"{play.input_tokens:,}",
        f"{play.output_tokens:,}",
    )
    return (
        f"<tr><th scope='row' class='word'>{escape(play.session)}</th>"
        f"<td class='word'><code>{escape(play.records)}</code></td>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
    )
