"""Every figure that rests on the engine's metrics has a label, and an estimate says that it is."""

from __future__ import annotations

from inferometer.analyze.engine import engine_figures
from inferometer.core import Window
from inferometer.report.fields import FIELDS, OTHER, field

WINDOW = Window("duration", 0, 1, None, True, None)


def test_every_figure_of_an_engine_has_its_label() -> None:
    names = set(engine_figures([], None, WINDOW, None))
    assert len(names) > 30
    assert {name for name in names if field(name).group == OTHER} == set()
    listed = {name for name, item in FIELDS.items() if item.group == "Engine"}
    assert listed == names


def test_a_percentile_of_a_histogram_is_called_an_estimate() -> None:
    times = [f for f in FIELDS.values() if f.group == "Engine" and f.name.endswith("_s")]
    estimates = [item for item in times if "estimate" in item.label]
    assert {item.name for item in estimates} == {
        item.name for item in times if item.name[-5:-2] in ("p50", "p90", "p99")
    }
    assert len(estimates) == 18
