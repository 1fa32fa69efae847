"""Filters: what passes, and what a filter says that nothing passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferometer.core import Point
from inferometer.errors import InputError
from inferometer.plan import (
    Bounds,
    Selection,
    expand,
    expand_arms,
    load_configs,
    lowest,
    quickstart_paths,
    select,
    select_arms,
)


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
        (Selection(runners=("sim-h200", "cluster:sim-h200")), 8),
        (Selection(lengths=("1024_64",)), 8),
        (Selection(tp=Bounds(2, 2), ep=Bounds(high=1)), 16),
        (Selection(nodes="single"), 16),
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
        (
            Selection(runners=("h200",)),
            "no point has runner 'h200'; did you mean 'sim-h200'?; there are: cluster:sim-h200, ",
        ),
        (
            Selection(lengths=("agentic",)),
            "no point has lengths 'agentic'; there are: 1024_64",
        ),
        (Selection(tp=Bounds(low=3)), "no point has tp 3..; there are: 2"),
        (Selection(ep=Bounds(2, 4)), "no point has ep 2..4; there are: 1"),
        (Selection(nodes="multi"), "no point has nodes 'multi'; there are: single"),
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


def test_arms_are_cut_and_keep_their_order() -> None:
    arms = expand_arms(load_configs(*quickstart_paths()))
    kept = select_arms(arms, Selection(conc=(1, 32)))
    assert [[point.conc for point in arm] for arm in kept] == [[1, 32], [1, 32], [1], [1]]
    assert [[point.conc for point in arm] for arm in lowest(kept)] == [[1]] * 4
    with pytest.raises(InputError, match="no point has concurrency 3"):
        select_arms(arms, Selection(conc=(3,)))


def test_the_lowest_is_the_least_and_not_the_first() -> None:
    (arm, *_) = expand_arms(load_configs(*quickstart_paths()))
    assert lowest((arm[::-1],)) == ((arm[0],),)


@pytest.mark.parametrize(
    ("selection", "count"),
    [
        (Selection(nodes="multi"), 906),
        (Selection(nodes="multi", scenario="agentic"), 264),
        (Selection(nodes="single", scenario="fixed"), 690),
        (Selection(lengths=("1k1k",)), 1),
        (Selection(lengths=("8k1k",), nodes="single"), 690),
        (Selection(runners=("b300",), keys=("dsv4-*",), precisions=("fp4",)), 58),
        (Selection(tp=Bounds(high=1), nodes="single"), 0),
    ],
)
def test_filters_on_real_files(shared_data: Path, selection: Selection, count: int) -> None:
    folder = shared_data / "inferencex"
    masters = [str(folder / f"{name}-master.yaml") for name in ("amd", "nvidia")]
    points = expand(load_configs(masters, str(folder / "runners.yaml")))
    if not count:
        with pytest.raises(InputError):
            select(points, selection)
        return
    kept = select(points, selection)
    assert len(kept) == count
    assert set(kept) <= set(points)


def test_bounds_hold_for_every_role_that_has_workers(shared_data: Path) -> None:
    folder = shared_data / "inferencex"
    configs = load_configs([str(folder / "nvidia-master.yaml")], str(folder / "runners.yaml"))
    points = expand(configs)
    for point in select(points, Selection(nodes="multi", tp=Bounds(2, 8), ep=Bounds(high=4))):
        assert point.multi_node is not None
        pools = (point.multi_node.prefill, point.multi_node.decode)
        spreads = [pool.parallelism for pool in pools if pool.workers]
        assert all(2 <= spread.tp <= 8 and spread.ep <= 4 for spread in spreads)
