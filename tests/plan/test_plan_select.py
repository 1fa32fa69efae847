"""Filters: what passes, and what a filter says that nothing passes."""

from __future__ import annotations

import pytest

from inferometer.core import Point
from inferometer.errors import InputError
from inferometer.plan import Selection, expand, load_configs, quickstart_paths, select


@pytest.fixture(scope="module")
def points() -> tuple[Point, ...]:
    return expand(load_configs(*quickstart_paths()))


@pytest.mark.parametrize(
    ("selection", "count"),
    [
        (Selection(), 16),
        (Selection(keys=("*h200*",)), 8),
        (Selection(keys=("*-agentic", "llama70b-fp8-h200-simulate?")), 12),
        (Selection(scenario="agentic"), 8),
        (Selection(conc=(1, 32)), 6),
        (Selection(conc_min=4), 10),
        (Selection(conc_min=4, conc_max=8), 6),
        (Selection(hardware=("mi355x",), scenario="fixed", conc_max=1), 1),
        (Selection(frameworks=("simulated",), model_prefixes=("llama70b",)), 16),
        (Selection(precisions=("fp8",)), 16),
    ],
)
def test_what_passes(points: tuple[Point, ...], selection: Selection, count: int) -> None:
    kept = select(points, selection)
    assert len(kept) == count
    assert list(kept) == [point for point in points if point in kept]


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (
            Selection(keys=("llama70b-fp8-h200-simulatd",)),
            "no config key matches 'llama70b-fp8-h200-simulatd'; did you mean "
            "'llama70b-fp8-h200-simulated'?; there are: llama70b-fp8-h200-simulated, ",
        ),
        (Selection(conc=(1, 3)), "no point has concurrency 3; there are: 1, 2, 4, 8, 16, 32"),
        (Selection(conc_min=65), "no point has concurrency 65..; there are: 1, 2, 4, 8, 16, 32"),
        (
            Selection(hardware=("h20",)),
            "no point has hardware 'h20'; did you mean 'h200'?; there are: h200, mi355x",
        ),
        (
            Selection(scenario="agentic", conc=(32,)),
            "each filter passes some of 16 points, all together none",
        ),
    ],
)
def test_a_filter_that_nothing_passes(
    points: tuple[Point, ...], selection: Selection, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        select(points, selection)
    assert str(caught.value).startswith(message)


def test_every_value_that_matches_nothing_is_named(points: tuple[Point, ...]) -> None:
    selection = Selection(keys=("x", "*"), conc=(3, 5), precisions=("fp4",))
    with pytest.raises(InputError) as caught:
        select(points, selection)
    assert len(caught.value.problems) == 4


def test_there_must_be_points() -> None:
    with pytest.raises(InputError, match="there is no point to select from"):
        select((), Selection())
