"""What a run means: windows, metrics by name, the verdict, the frontier. Reads no file."""

from inferometer.analyze.frontier import knee, pareto
from inferometer.analyze.point import PointInputs, Versions, analyze_point
from inferometer.analyze.verdict import Code

__all__ = ["Code", "PointInputs", "Versions", "analyze_point", "knee", "pareto"]
