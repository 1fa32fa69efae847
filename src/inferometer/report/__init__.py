"""What is shown: one self-contained HTML page of a run. Reads no store and computes no metric."""

from inferometer.report.page import render
from inferometer.report.view import PointView, RunView

__all__ = ["PointView", "RunView", "render"]
