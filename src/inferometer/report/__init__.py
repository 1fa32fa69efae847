"""What is shown: one self-contained HTML page of a run, of a point, of a workload. No metric is
computed here.
"""

from inferometer.report.page import render
from inferometer.report.point import render_point, times_of
from inferometer.report.view import PointView, RunView

__all__ = ["PointView", "RunView", "render", "render_point", "times_of"]
