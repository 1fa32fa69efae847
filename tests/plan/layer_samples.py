"""Points of the built-in engine, and recipes with layers beside their config."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from examples import POINT
from inferometer.core import AgenticCoding, Point
from inferometer.errors import InputError, Problem
from inferometer.plan import Recipes, load_recipes, resolve

FIXED = dataclasses.replace(POINT, framework="simulated", runner="sim-h200")
AGENTIC = dataclasses.replace(FIXED, scenario=AgenticCoding(), max_model_len=None)
DEFAULTS = "inferometer/plan/recipes/defaults.yaml"
SESSIONS = "- workload: {sessions: synthetic:x}"


def recipes(**layers: str) -> Recipes:
    """The package's recipes and layers beside the config: `engines__x` is engines/x.yaml."""
    named = {name.replace("__", "/") + ".yaml": text for name, text in layers.items()}
    return recipes_of(named)


def recipes_of(texts: Mapping[str, str]) -> Recipes:
    def read(path: str) -> bytes:
        return texts[path.removeprefix("conf/recipes/")].encode()

    return load_recipes(read, ["conf/recipes"], lambda _root: list(texts))


def refusal(point: Point, **layers: str) -> tuple[Problem, ...]:
    with pytest.raises(InputError) as caught:
        resolve(point, recipes(**layers))
    return caught.value.problems
