"""What a run means: windows, metrics by name, the verdict, the frontier. Reads no file."""

from typing import TYPE_CHECKING

from inferometer.deferred import by_name

if TYPE_CHECKING:
    from inferometer.analyze.frontier import knee, pareto
    from inferometer.analyze.point import PointInputs, Versions, analyze_point
    from inferometer.analyze.verdict import Code

__all__ = ["Code", "PointInputs", "Versions", "analyze_point", "knee", "pareto"]

# What reads an objective of the command line must not pay for all that judges a run.
__getattr__ = by_name(
    __name__,
    {
        "frontier": "knee pareto",
        "point": "PointInputs Versions analyze_point",
        "verdict": "Code",
    },
)
