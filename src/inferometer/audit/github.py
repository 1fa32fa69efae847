"""An audit as GitHub shows it: workflow annotations, and a comment's body. All text is inert.

Whatever a value, a path or a message holds, an annotation stays one line and one command, and the
comment has no markup, link or mention but our own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from inferometer.audit.claims import arrow, shown
from inferometer.audit.difference import Difference
from inferometer.audit.examine import Audit
from inferometer.audit.finding import Finding
from inferometer.audit.gate import describe
from inferometer.audit.text import plain

MAX_ANNOTATIONS = 50
MAX_ROWS = 100
MAX_COMMENT = 60_000
"""Characters; GitHub takes 65,536."""
_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
MARKER = "<!-- inferometer audit -->"
"""First line of the comment, so that the next run finds and replaces it."""


def annotated(findings: Iterable[Finding]) -> Iterator[str]:
    """One workflow command a finding."""
    for index, finding in enumerate(findings):
        if index == MAX_ANNOTATIONS:
            yield "::notice title=audit::more findings are in the report"
            return
        properties = {"file": finding.file, "line": finding.line, "title": f"audit {finding.rule}"}
        told = ",".join(
            f"{name}={_property(str(value))}" for name, value in properties.items() if value
        )
        yield f"::{_COMMANDS[finding.level]} {told}::{_data(_message(finding))}"


def comment(audit: Audit) -> str:
    """The body of a comment, in GitHub's Markdown."""
    errors = sum(finding.level == "error" for finding in audit.findings)
    verdict = "passes" if audit.passed else f"says no: {errors} errors"
    comparison = audit.comparison
    counts = (("changed", comparison.changed), ("added", comparison.added))
    points = ", ".join(f"{len(names)} {word}" for word, names in counts)
    lines = [MARKER, f"### Audit {verdict}", ""]
    lines.append(f"Points: {points}, {len(comparison.removed)} removed.")
    lines += ["", *_table(("level", "rule", "where", "what", "points"), _findings(audit.findings))]
    lines += ["", "#### What changes", ""]
    lines += _table(("key", "old → new", "points", ""), map(_difference, comparison.differences))
    wanted = [(each.name, each.why) for each in audit.to_measure]
    lines += ["", f"#### To measure: {len(wanted)}", "", *_table(("point", "why"), wanted)]
    text = "\n".join(lines) + "\n"
    if len(text) <= MAX_COMMENT:
        return text
    return text[:MAX_COMMENT].rpartition("\n")[0] + "\n\nThe rest is in the report.\n"


def _findings(findings: Iterable[Finding]) -> Iterator[tuple[str, ...]]:
    for finding in findings:
        place = finding.file or ""
        if finding.line:
            place += f":{finding.line}"
        yield finding.level, finding.rule, place, finding.message, _extent(finding.points)


def _difference(difference: Difference) -> tuple[str, ...]:
    mark = f"derived ({', '.join(difference.follows) or 'same rule'})" if difference.derived else ""
    if difference.kind != "value":
        told = describe(difference, difference.cases).removeprefix(f"{difference.key} ")
    else:
        told = ", ".join(arrow(case.old, case.new) for case in difference.cases[:4])
        told += f" and {len(difference.cases) - 4} more" if len(difference.cases) > 4 else ""
    return difference.key, told, _extent(difference.points), mark


def _extent(points: tuple[str, ...]) -> str:
    return f"{len(points)}: {points[0]}" if points else ""


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """A Markdown table; its cells are ours or inert."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for index, row in enumerate(rows):
        if index == MAX_ROWS:
            yield f"| and more {'| ' * (len(head) - 1)}|"
            return
        yield f"| {' | '.join(map(_cell, row))} |"


def _cell(text: str) -> str:
    """Text inside `code`, where nobody is mentioned, every sign but letters and digits written as a
    number, so that no markup is left to read.
    """
    if not text:
        return ""
    shorter = plain(shown(text, 300))
    safe = (c if c == " " or (c.isascii() and c.isalnum()) else f"&#{ord(c)};" for c in shorter)
    return f"<code>{''.join(safe)}</code>"


def _message(finding: Finding) -> str:
    extent = f" [{_extent(finding.points)}]" if finding.points else ""
    return plain(finding.message) + plain(extent)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(plain(text)).replace(":", "%3A").replace(",", "%2C")
