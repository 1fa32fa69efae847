"""The page of a workload: its pictures in a real browser, its figures, and hostile names."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import expect
from test_report_browser import browser, opened, overflow  # noqa: F401 - browser is a fixture

from inferometer.report.workload import render_workload
from inferometer.workload import Inspection, drawn_sessions, inspect_sessions, named, synthesize

HOSTILE = "</script><img src=x onerror=\"document.title='owned'\">"


@pytest.fixture(scope="module")
def found() -> Inspection:
    return inspect_sessions(synthesize(named("quickstart"), 12, 1), 4)


def test_every_figure_is_in_a_table(found: Inspection) -> None:
    page = render_workload(found, "made", ["one thing", "another"])
    for hit in found.reuse.hits:
        assert f"<td>{hit.hit:.2%}</td>" in page
    for one in found.spreads:
        assert f"<th scope='row'>{one.name} ({one.unit})</th><td>{one.count:,}</td>" in page
    assert f"{found.input_tokens:,} tokens" in page
    assert "<li>one thing</li>" in page
    assert "Trees of agents" in page


def test_nothing_is_loaded(found: Inspection) -> None:
    page = render_workload(found, "made", [])
    outside = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"""(?:src|href)=["'](?!data:)""", outside)
    assert "default-src 'none'" in page


def test_hostile_names_are_text(found: Inspection) -> None:
    page = render_workload(replace(found, agents={HOSTILE: 1}), HOSTILE, [HOSTILE])
    assert HOSTILE not in page
    assert page.count("&lt;/script&gt;&lt;img") == 4


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_all_is_drawn_in_both_schemes(
    browser: object,  # noqa: F811
    tmp_path: Path,
    found: Inspection,
    scheme: str,
    width: int,
) -> None:
    path = tmp_path / "page.html"
    path.write_text(render_workload(found, HOSTILE, [HOSTILE]), encoding="utf-8")
    context = browser.new_context(  # type: ignore[attr-defined]
        viewport={"width": width, "height": 900}, color_scheme=scheme
    )
    seen = opened(context, path)
    expect(seen.page.locator(".plot .main-svg")).not_to_have_count(0)
    expect(seen.page.locator("#cache .points path.point")).not_to_have_count(0)
    expect(seen.page.locator("#use path.js-line")).to_have_count(1)
    for index, one in enumerate(found.spreads):
        bars = seen.page.locator(f"#spread-{index} .bars .point")
        expect(bars).to_have_count(len(one.counts))
    surface = seen.page.evaluate("getComputedStyle(document.querySelector('section')).color")
    assert surface
    assert overflow(seen.page) <= 0
    assert seen.page.title() != "owned"
    assert seen.quiet()
    context.close()


def test_a_workload_without_agents_or_sharing_has_a_page() -> None:
    drawn = drawn_sessions("lengths:isl=30,osl=5", 1, 20)
    assert drawn is not None
    page = render_workload(inspect_sessions(drawn, 2), "drawn", [])
    assert "Trees of agents" not in page
    assert "<td>0.00%</td>" in page
