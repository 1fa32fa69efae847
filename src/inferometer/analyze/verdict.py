"""Is the measurement worth anything: reasons with codes and bounds; the worst one decides.

The bounds and rules are in `verdict_load` and `verdict_watched`. Nothing is measured here.
"""

from __future__ import annotations

from inferometer.analyze.evidence import Code, Evidence
from inferometer.analyze.verdict_load import LOAD_RULES
from inferometer.analyze.verdict_watched import WATCHED_RULES
from inferometer.core import Verdict, VerdictLevel

__all__ = ["Code", "Evidence", "judge"]
RULES = (*LOAD_RULES, *WATCHED_RULES)


def judge(evidence: Evidence) -> Verdict:
    """Every reason that holds, and the worst of their levels."""
    reasons = tuple(reason for rule in RULES for reason in rule(evidence))
    levels = {reason.level for reason in reasons}
    level: VerdictLevel = "valid"
    if levels:
        level = "invalid" if "invalid" in levels else "degraded"
    return Verdict(level, reasons, evidence.labels)
