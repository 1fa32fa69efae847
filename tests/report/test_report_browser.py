"""The page in a real browser: drawn, readable, usable, and silent on the network."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect, sync_playwright
from report_synthetic import points, view

from inferometer.report import render

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 120_000
"""Of everything that a browser is waited for: a busy machine is slow, and slowness is no fault."""
expect.set_options(timeout=PATIENCE_MS)
MARKERS = "#speed .points path.point"
PANEL = [i for i, made in enumerate(points()) if made.result.point.scenario.label == "1k1k"]


@dataclass
class Opened:
    """A page with all that it complained of and all that it asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def quiet(self) -> bool:
        """Nothing on the console, nothing on the network."""
        return self.complaints == [] and self.requests == []


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=CHROMIUM, args=list(ARGUMENTS), timeout=PATIENCE_MS
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render(view()), encoding="utf-8")
    return path


def opened(context: BrowserContext, path: Path, fragment: str = "") -> Opened:
    context.set_default_timeout(PATIENCE_MS)
    seen = Opened(context.new_page())

    def guard(route: Route) -> None:
        if route.request.url.startswith("file:"):
            route.continue_()
        else:
            seen.requests.append(route.request.url)
            route.abort()

    seen.page.route("**/*", guard)
    seen.page.on("console", lambda message: seen.complaints.append(message.text))
    seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    seen.page.goto(f"{path.as_uri()}{fragment}")
    return seen


@pytest.fixture
def wide(browser: Browser, report: Path) -> Iterator[Opened]:
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    yield opened(context, report)
    context.close()


def overflow(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


def column(page: Page, position: int) -> list[str]:
    return page.locator(f"#points > tbody > tr > td:nth-child({position})").all_inner_texts()


def test_every_point_of_the_panel_is_drawn_on_both_charts(wide: Opened) -> None:
    expect(wide.page.locator(MARKERS)).to_have_count(len(PANEL))
    expect(wide.page.locator("#wait .points path.point")).to_have_count(len(PANEL))
    expect(wide.page.locator("#speed .lines path.js-line")).to_have_count(3)
    expect(wide.page.locator("#speed-title")).to_have_text(
        "1k1k: Total throughput per GPU against Interactivity p50"
    )
    assert wide.quiet()


def test_points_without_a_value_are_named_and_not_drawn(wide: Opened) -> None:
    few = [i for i in PANEL if points()[i].result.metrics["intvty_p99"] is None]
    wide.page.get_by_label("p99", exact=True).check()
    expect(wide.page.locator(MARKERS)).to_have_count(len(PANEL) - len(few))
    missing = wide.page.locator("#speed-missing")
    expect(missing).to_contain_text(f"Not drawn: {len(few)}")
    expect(missing).to_contain_text("needs 100 samples, has 64")
    assert len(few) > 0


def test_the_address_holds_the_choices(browser: Browser, report: Path) -> None:
    context = browser.new_context()
    page = opened(context, report, "#panel=2&rate=output_tok_s_per_gpu&percentile=p90").page
    expect(page.locator("#wait-title")).to_have_text(
        "agentic: Output throughput per GPU against TTFT p90"
    )
    page.get_by_label("8k1k", exact=True).check()
    # The address that Playwright knows follows the page's own some time later.
    expect(page).to_have_url(re.compile("panel=1&rate=output_tok_s_per_gpu&percentile=p90"))
    context.close()


def test_hover_shows_the_fields_of_the_point(wide: Opened) -> None:
    expect(wide.page.locator(MARKERS)).to_have_count(len(PANEL))
    wide.page.locator(MARKERS).nth(5).hover(force=True)
    card = wide.page.locator("#card")
    expect(card).to_be_visible()
    text = card.inner_text()
    for label in (
        *("Config", "Model", "Hardware", "Parallelism", "Concurrency", "Scenario"),
        *("Total throughput", "Interactivity p50", "TTFT p50", "TTFT p90", "TPOT p50"),
        *("End-to-end p50", "Requests", "Window", "Verdict", "Provenance", "Digest"),
    ):
        assert f"{label}\n" in text
    assert "dsr1-fp8-b200-vllm" in text
    assert "600 s" in text


def test_a_click_pins_the_card_and_leads_to_the_row(wide: Opened) -> None:
    expect(wide.page.locator(MARKERS)).to_have_count(len(PANEL))
    wide.page.locator(MARKERS).nth(5).click(force=True)
    wide.page.get_by_role("link", name="Open in the table").click()
    expect(wide.page.locator("#card")).to_be_hidden()
    row = wide.page.locator("tr[id^=point-]:has(.open[aria-expanded=true])")
    expect(row).to_contain_text("b200")
    expect(wide.page.locator(".sheet")).to_be_visible()


def test_the_legend_switches_a_series(wide: Opened) -> None:
    button = wide.page.locator(".legend:not([hidden]) button", has_text="h200")
    button.press("Enter")
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(wide.page.locator(MARKERS)).to_have_count(len(PANEL) * 2 // 3)


def test_the_table_sorts_both_ways_with_unknown_last(wide: Opened) -> None:
    heading = wide.page.get_by_role("button", name="TTFT p99")
    head = wide.page.locator("#points th", has=heading)
    for direction in ("ascending", "descending"):
        heading.press("Enter")
        expect(head).to_have_attribute("aria-sort", direction)
        cells = column(wide.page, 12)
        known = [float(cell.replace(",", "")) for cell in cells if cell != "–"]
        assert known == sorted(known, reverse=direction == "descending")
        assert cells[len(known) :] == ["–"] * (len(cells) - len(known))
        assert 0 < len(known) < len(cells)


def test_the_table_filters_by_scenario_and_hardware(wide: Opened) -> None:
    wide.page.get_by_label("Scenario", exact=True).select_option("agentic")
    wide.page.get_by_label("Hardware", exact=True).select_option("mi355x")
    expect(wide.page.locator("#points > tbody > tr:visible")).to_have_count(18)
    expect(wide.page.locator("#shown")).to_have_text("18 of 162 points")


def test_a_row_expands_to_everything_about_its_point(wide: Opened) -> None:
    name = "Details of dsr1-fp8-h200-vllm_1k1k_tp8_c256"
    wide.page.get_by_role("button", name=name).press("Enter")
    sheet = wide.page.locator(".sheet")
    for text in (
        "The client sent late.",
        "seen 2.61, bound 2.00",
        "mystery_new_metric_j",
        "'NOTE=two words'",
        '--override \'{"a b": "$HOME"}\'',
        "/etc/engine/config.yaml",
        "recipes/vllm.yaml:31",
        "next_pow2(conc)",
        "Measurement version",
    ):
        expect(sheet).to_contain_text(text)
    unknown = sheet.locator("td.null[title='the server does not count tokens a chunk']")
    expect(unknown.first).to_have_text("–")
    wide.page.get_by_role("button", name=name).press("Enter")
    expect(sheet).to_be_hidden()
    assert wide.quiet()


def test_the_charts_follow_the_colour_scheme_live(wide: Opened) -> None:
    line = wide.page.locator("#speed .lines path.js-line").first
    background = wide.page.locator("#speed .main-svg").first
    colours = []
    for scheme in ("light", "dark"):
        wide.page.emulate_media(color_scheme=scheme)
        surface = wide.page.evaluate(
            "getComputedStyle(document.querySelector('main > section')).backgroundColor"
        )
        expect(background).to_have_css("background-color", surface)
        colours.append((surface, line.evaluate("line => line.style.stroke")))
    assert colours[0][0] != colours[1][0]
    assert colours[0][1] != colours[1][1]
    assert wide.quiet()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_of_it_without_scrolling_sideways(
    browser: Browser, report: Path, scheme: str
) -> None:
    context = browser.new_context(
        viewport={"width": 390, "height": 844},
        has_touch=True,
        is_mobile=True,
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    seen = opened(context, report)
    expect(seen.page.locator(MARKERS)).to_have_count(len(PANEL))
    assert overflow(seen.page) <= 0
    seen.page.locator(".open").first.tap()
    expect(seen.page.locator(".sheet")).to_be_visible()
    width = seen.page.locator(".sheet").evaluate("sheet => sheet.getBoundingClientRect().width")
    assert width <= 390
    assert overflow(seen.page) <= 0
    assert seen.quiet()
    context.close()


def test_hostile_names_do_not_run(browser: Browser, tmp_path: Path) -> None:
    hostile = "</script><img src=x onerror=\"document.title='owned'\">"
    given = points()[0]
    at = replace(given.result.point, config=hostile, hardware=hostile, model=hostile)
    made = replace(given, result=replace(given.result, point=at, notes={"itl_p50_s": hostile}))
    path = tmp_path / "hostile.html"
    path.write_text(render(view((made,))), encoding="utf-8")
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    seen = opened(context, path)
    expect(seen.page.locator(MARKERS)).to_have_count(1)
    seen.page.locator(MARKERS).hover(force=True)
    expect(seen.page.locator("#card")).to_contain_text(hostile)
    seen.page.locator(".open").click()
    expect(seen.page.locator(".sheet")).to_be_visible()
    assert seen.page.locator("img").count() == 0
    assert seen.page.title() != "owned"
    assert seen.quiet()
    context.close()


def test_two_thousand_points_are_drawn(browser: Browser, tmp_path: Path) -> None:
    many = (points() * 13)[:2000]
    path = tmp_path / "many.html"
    path.write_text(render(view(many)), encoding="utf-8")
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    seen = opened(context, path)
    panel = sum(made.result.point.scenario.label == "1k1k" for made in many)
    expect(seen.page.locator(MARKERS)).to_have_count(panel)
    seen.page.get_by_label("p90", exact=True).check()
    expect(seen.page.locator("#speed-title")).to_contain_text("p90")
    expect(seen.page.locator("#shown")).to_have_text("2,000 of 2,000 points")
    rows = seen.page.locator("#points > tbody > tr:not([hidden])")
    expect(rows).to_have_count(300)
    seen.page.get_by_role("button", name="Show all 2,000").click()
    expect(rows).to_have_count(2000)
    assert seen.quiet()
    context.close()


def test_a_run_without_points_complains_of_nothing(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "empty.html"
    path.write_text(render(view(())), encoding="utf-8")
    context = browser.new_context()
    seen = opened(context, path)
    expect(seen.page.locator("#shown")).to_have_text("0 of 0 points")
    assert seen.quiet()
    context.close()
