"""Deferred modules and names: nothing is imported until it is used; then it is the real thing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from inferometer import analyze, catalog, plan, report, store, workload
from inferometer.deferred import Deferred, by_name

HEAVY = ("duckdb", "pydantic", "plotly", "rich", "yaml", "aiohttp", "tokenizers", "jinja2")


def test_a_module_is_imported_with_its_first_attribute() -> None:
    code = (
        "import sys; from inferometer.deferred import Deferred; late = Deferred('colorsys');"
        "print('colorsys' in sys.modules); late.rgb_to_hls(1, 1, 1);"
        "print('colorsys' in sys.modules)"
    )
    assert _said(code) == ["False", "True"]


def test_a_missing_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        Deferred("colorsys").nothing  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        by_name("inferometer.store", {"format": "FORMAT"})("nothing")


PACKAGES = (analyze, catalog, plan, report, store, workload)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_public_name_is_found(package: object) -> None:
    names = list(getattr(package, "__all__"))  # noqa: B009
    assert names
    for name in names:
        assert getattr(package, name) is not None


def test_the_load_process_is_light() -> None:
    code = (
        "import sys, inferometer.run.loadserve;"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    assert _said(code) == ["[]"]


def test_bench_starts_its_load_before_it_imports_what_judges_and_draws() -> None:
    code = (
        "import sys, inferometer.cli.bench;"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    assert _said(code) == ["[]"]


def test_recorded_sessions_are_read_without_the_generator() -> None:
    code = (
        "import sys, inferometer.workload.sources;"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    assert _said(code) == ["[]"]


def test_a_worker_is_lighter_still() -> None:
    code = (
        "import sys, inferometer.load.worker;"
        f"print([name for name in {(*HEAVY, 'numpy', 'asyncio')!r} if name in sys.modules])"
    )
    assert _said(code) == ["[]"]


def _said(code: str) -> list[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
