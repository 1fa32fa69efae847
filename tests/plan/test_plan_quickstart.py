"""The sweep that comes with the package: 16 points, all resolved, all different."""

from __future__ import annotations

import pytest

from inferometer.core import FixedSeqLen, LaunchPlan, Point
from inferometer.plan import (
    digest,
    expand,
    load_configs,
    load_recipes,
    quickstart_paths,
    read_file,
    recipe_roots,
    resolve,
)


@pytest.fixture(scope="module")
def plans() -> list[tuple[Point, LaunchPlan]]:
    masters, runners = quickstart_paths()
    configs = load_configs(masters, runners)
    assert configs.warnings == ()
    recipes = load_recipes(read_file, recipe_roots(masters))
    return [(point, resolve(point, recipes)) for point in expand(configs)]


def test_four_configs_of_four_points(plans: list[tuple[Point, LaunchPlan]]) -> None:
    ladders: dict[str, list[int]] = {}
    for point, _plan in plans:
        ladders.setdefault(point.config, []).append(point.conc)
    assert ladders == {
        "llama70b-fp8-h200-simulated": [1, 4, 16, 32],
        "llama70b-fp8-mi355x-simulated": [1, 4, 16, 32],
        "llama70b-fp8-h200-simulated-agentic": [1, 2, 4, 8],
        "llama70b-fp8-mi355x-simulated-agentic": [1, 2, 4, 8],
    }


def test_short_windows(plans: list[tuple[Point, LaunchPlan]]) -> None:
    for point, plan in plans:
        work = plan.workload
        assert plan.client.grace_s == 10
        if isinstance(point.scenario, FixedSeqLen):
            assert (work.duration_s, work.requests, work.length_ratio) == (5, None, 0.8)
            assert (work.isl, work.osl, work.warmup_requests_per_lane) == (1024, 64, 1)
        else:
            assert (work.duration_s, work.sessions) == (5, "synthetic:quickstart")
            assert work.warmup_requests_per_lane == 2
        assert plan.argv[:3] == ("inferometer", "engine", "simulated")
        assert plan.argv[plan.argv.index("--gpu") + 1] == point.hardware


def test_no_two_points_are_the_same(plans: list[tuple[Point, LaunchPlan]]) -> None:
    assert len({digest(point, plan) for point, plan in plans}) == 16
    assert len({point.id for point, _plan in plans}) == 16
