"""What is shown: one self-contained HTML page of a run, of a point, of a workload. No metric is
computed here.
"""

from typing import TYPE_CHECKING

from inferometer.deferred import by_name

if TYPE_CHECKING:
    from inferometer.report.page import render
    from inferometer.report.point import render_point, times_of
    from inferometer.report.view import PointView, RunView

__all__ = ["PointView", "RunView", "render", "render_point", "times_of"]

# The page of a run does without the page of a point.
__getattr__ = by_name(
    __name__,
    {
        "page": "render",
        "point": "render_point times_of",
        "view": "PointView RunView",
    },
)
