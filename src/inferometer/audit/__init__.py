"""What may change: two revisions compared point by point, and the record of changes held to it.

    tree_at -> examine (discover -> read_revision -> compare -> judge) -> Audit
                                                     draft

Reads trees through bounds and starts nothing but git's own readers; knows no run in progress.
"""

from inferometer.audit.difference import Case, Comparison, Difference
from inferometer.audit.discover import Found
from inferometer.audit.discover import Wanted as Where
from inferometer.audit.draft import draft
from inferometer.audit.examine import Asked, Audit, examine, read_sides, tree_at
from inferometer.audit.finding import Finding
from inferometer.audit.gate import Rules, describe
from inferometer.audit.github import annotated, comment
from inferometer.audit.stale import Stored, Wanted, stale, stored_results
from inferometer.audit.text import plain

__all__ = [
    "Asked",
    "Audit",
    "Case",
    "Comparison",
    "Difference",
    "Finding",
    "Found",
    "Rules",
    "Stored",
    "Wanted",
    "Where",
    "annotated",
    "comment",
    "describe",
    "draft",
    "examine",
    "plain",
    "read_sides",
    "stale",
    "stored_results",
    "tree_at",
]
