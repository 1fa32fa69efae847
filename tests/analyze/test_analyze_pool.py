"""Pooled values: exact while few, and then to within what is said."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.analyze.pool import Pool
from inferometer.metrics import Floats

PERCENTS = (50, 75, 90, 95, 99)


def pooled(values: Floats, exact: int, times: int = 1, parts: int = 3) -> Pool:
    pool = Pool(exact)
    for part in np.array_split(values, parts):
        pool.add(part, None if times == 1 else np.full(len(part), times))
    return pool


def test_few_values_are_exact() -> None:
    values = np.random.default_rng(0).exponential(2e7, 999)
    pool = pooled(values, exact=1000)
    found = [figure.value for figure in pool.percentiles(PERCENTS)]
    assert found == pytest.approx(np.percentile(values, PERCENTS) / 1e9, rel=1e-12)
    assert all(figure.why is None for figure in pool.percentiles(PERCENTS))
    assert pool.mean().value == pytest.approx(values.mean() / 1e9)


@given(
    seed=st.integers(0, 1000),
    scale=st.floats(1.0, 1e13),
    times=st.integers(1, 3),
    parts=st.integers(1, 5),
)
def test_many_are_within_what_the_note_says(
    seed: int, scale: float, times: int, parts: int
) -> None:
    values = np.floor(np.random.default_rng(seed).exponential(scale, 2_000))
    pool = pooled(values, 100, times, parts)
    expected = np.percentile(np.repeat(values, times), PERCENTS) / 1e9
    found = [figure.value for figure in pool.percentiles(PERCENTS)]
    assert found == pytest.approx(expected, rel=2.5e-4)
    assert all("to within 0.025 %" in (f.why or "") for f in pool.percentiles(PERCENTS))
    assert pool.count == 2_000 * times
    assert pool.mean().value == pytest.approx(values.mean() / 1e9)


def test_zeros_and_what_is_below_a_nanosecond_are_zero() -> None:
    pool = pooled(np.array([0.0, 0.0, 0.4, 0.0]), exact=1)
    assert [figure.value for figure in pool.percentiles((50,))] == [0.0]


def test_nothing_has_no_mean() -> None:
    assert Pool().mean().value is None
    assert [figure.value for figure in Pool().percentiles((50,))] == [None]
