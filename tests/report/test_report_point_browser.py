"""The page of a point in a real browser: one axis, every bar, by hand and by keys, no request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from point_synthetic import Shape, run_directory
from test_report_browser import Opened, browser, opened, overflow

from inferometer.report import render_point, times_of
from inferometer.store import RunDir

pytestmark = pytest.mark.browser
__all__ = ["browser"]
PANELS = (
    *("in_flight", "queue", "kv", "tokens", "gaps", "prefix", "power", "clock", "throttle"),
    "host",
)


def written(folder: Path, shape: Shape) -> Path:
    run, name = run_directory(folder / "run", shape)
    path = folder / "point.html"
    path.write_text(render_point(times_of(RunDir(run).point(name), "run-1")), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("small"), Shape())


@pytest.fixture
def wide(browser: Browser, small: Path) -> Iterator[Opened]:
    context = browser.new_context(viewport={"width": 1440, "height": 3000})
    yield opened(context, small)
    context.close()


def ranges(page: Page) -> list[list[float]]:
    """The range that each panel shows."""
    found: list[list[float]] = page.evaluate(
        "[...document.querySelectorAll('.panel .plot')].map(box => box.layout.xaxis.range)"
    )
    return found


def shown(page: Page) -> Locator:
    return page.locator("#shown")


def drawn(page: Page) -> int:
    """Bars in sight, once what was asked for is drawn."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")
    return int(page.locator("#bars").get_attribute("data-drawn") or "0")


def test_every_panel_is_drawn_and_the_window_is_shaded(wide: Opened) -> None:
    for key in PANELS:
        expect(wide.page.locator(f"#panel-{key} .main-svg").first).to_be_visible()
        expect(wide.page.locator(f"#panel-{key} .shapelayer path")).to_have_count(3)
    assert drawn(wide.page) == 320
    assert wide.quiet()


def test_zooming_one_zooms_all(wide: Opened) -> None:
    expect(wide.page.locator("#panel-host .main-svg").first).to_be_visible()
    before = ranges(wide.page)[0]
    area = wide.page.locator("#panel-kv .nsewdrag").bounding_box()
    assert area is not None
    middle = area["y"] + area["height"] / 2
    wide.page.mouse.move(area["x"] + area["width"] * 0.5, middle)
    wide.page.mouse.down()
    wide.page.mouse.move(area["x"] + area["width"] * 0.75, middle, steps=4)
    wide.page.mouse.up()
    assert 0 < drawn(wide.page) < 200
    found = ranges(wide.page)
    assert all(each == pytest.approx(found[0]) for each in found)
    assert found[0][1] - found[0][0] == pytest.approx((before[1] - before[0]) / 4, rel=0.05)
    wide.page.locator("#bars").dblclick(position={"x": 500, "y": 100})
    assert drawn(wide.page) == 320
    assert ranges(wide.page)[3] == pytest.approx(before)
    assert wide.quiet()


def test_a_drag_on_the_bars_zooms_the_panels(wide: Opened) -> None:
    expect(wide.page.locator("#panel-host .main-svg").first).to_be_visible()
    box = wide.page.locator("#bars").bounding_box()
    assert box is not None
    wide.page.mouse.move(box["x"] + 400, box["y"] + 100)
    wide.page.mouse.down()
    wide.page.mouse.move(box["x"] + 500, box["y"] + 100, steps=4)
    wide.page.mouse.up()
    assert 0 < drawn(wide.page) < 100
    found = ranges(wide.page)
    assert all(each == pytest.approx(found[0]) for each in found)
    assert found[0][1] - found[0][0] < 10


def test_buttons_and_keys_move_the_axis(wide: Opened) -> None:
    expect(shown(wide.page)).to_have_text("-11 s to 65 s")
    wide.page.get_by_role("button", name="Window", exact=True).press("Enter")
    expect(shown(wide.page)).to_have_text("-1 s to 61 s")
    wide.page.locator("#lanes").focus()
    wide.page.keyboard.press("+")
    expect(shown(wide.page)).to_have_text("15 s to 45 s")
    wide.page.keyboard.press("ArrowLeft")
    expect(shown(wide.page)).to_have_text("7 s to 38 s")
    wide.page.keyboard.press("Home")
    expect(shown(wide.page)).to_have_text("-11 s to 65 s")


def test_hover_shows_the_request(wide: Opened) -> None:
    wide.page.locator(".requests:not(#sessions) summary").click()
    wide.page.locator("[data-bar]", has_text="0001-0000-00007").click()
    drawn(wide.page)  # it was scrolled to, and a scroll hides the card
    canvas = wide.page.locator("#bars")
    box = canvas.bounding_box()
    assert box is not None
    card = wide.page.locator("#card")
    for y in range(30, int(box["height"]), 6):
        wide.page.mouse.move(box["x"] + 62 + (box["width"] - 76) / 2, box["y"] + y)
        if card.is_visible() and "00c0ffee-0001-0000-00007" in card.inner_text():
            break
    text = card.inner_text()
    for word in (
        "session-1",
        "root, turn 7",
        "timeout",
        "TTFT",
        "1,000, cached 800",
        "18",
        "no answer",
    ):
        assert word in text
    assert wide.quiet()


def test_every_curve_is_read_at_the_pointer(wide: Opened) -> None:
    expect(wide.page.locator("#panel-host .main-svg").first).to_be_visible()
    area = wide.page.locator("#panel-host .nsewdrag").bounding_box()
    assert area is not None
    wide.page.mouse.move(area["x"] + area["width"] / 2, area["y"] + 40)
    expect(wide.page.locator("#cursor")).to_be_visible()
    figure = wide.page.locator("figure", has=wide.page.locator("#panel-host"))
    expect(figure.locator(".at")).to_have_text(["20", re.compile(r"^[1-9]"), "1"])
    tokens = wide.page.locator("figure", has=wide.page.locator("#panel-tokens"))
    expect(tokens.locator(".at").nth(1)).to_have_text("40")
    wide.page.mouse.move(2, 2)
    expect(tokens.locator(".at").nth(1)).to_have_text("")
    assert wide.quiet()


def test_hostile_names_do_not_run(browser: Browser, tmp_path: Path) -> None:
    hostile = "</script><img src=x onerror=\"document.title='owned'\">"
    context = browser.new_context(viewport={"width": 1440, "height": 3000})
    seen = opened(context, written(tmp_path, Shape(word=hostile)))
    box = seen.page.locator("#bars").bounding_box()
    assert box is not None
    card = seen.page.locator("#card")
    for x in range(100, 700, 5):
        seen.page.mouse.move(box["x"] + x, box["y"] + 35)
        if card.is_visible():
            break
    expect(card).to_contain_text(hostile)
    assert seen.page.locator("img").count() == 0
    assert seen.page.title() != "owned"
    assert seen.quiet()
    context.close()


def test_ten_thousand_requests_are_usable(browser: Browser, tmp_path: Path) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    seen = opened(context, written(tmp_path, Shape(lanes=50, each=200)))
    lanes = seen.page.locator("#lanes")
    lanes.scroll_into_view_if_needed()
    expect(seen.page.locator("#requests .lead")).to_contain_text("10,000 requests of 50 lanes")
    everything = drawn(seen.page)
    lanes.evaluate("box => { box.scrollTop = 1e6; }")
    assert drawn(seen.page) > 0
    lanes.focus()
    for _ in range(5):
        seen.page.keyboard.press("+")
    assert 0 < drawn(seen.page) < everything / 8
    assert everything <= 10_000
    assert seen.quiet()
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_of_it_without_scrolling_sideways(
    browser: Browser, small: Path, scheme: str
) -> None:
    context = browser.new_context(
        viewport={"width": 390, "height": 844},
        has_touch=True,
        is_mobile=True,
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    seen = opened(context, small)
    seen.page.locator("#bars").scroll_into_view_if_needed()
    assert overflow(seen.page) <= 0
    seen.page.get_by_role("button", name="Zoom in").tap()
    expect(shown(seen.page)).to_have_text("8 s to 46 s")
    surface = seen.page.evaluate(
        "getComputedStyle(document.querySelector('main > section')).backgroundColor"
    )
    pixel = seen.page.locator("#bars").evaluate(
        "bars => bars.getContext('2d').getImageData(4, 60, 1, 1).data.slice(0, 3).join(', ')"
    )
    assert surface == f"rgb({pixel})"
    assert seen.quiet()
    context.close()


def test_the_pictures_follow_the_colour_scheme_live(wide: Opened) -> None:
    colours = []
    for scheme in ("light", "dark"):
        wide.page.emulate_media(color_scheme=scheme)
        surface = wide.page.evaluate(
            "getComputedStyle(document.querySelector('main > section')).backgroundColor"
        )
        expect(wide.page.locator("#panel-kv .main-svg").first).to_have_css(
            "background-color", surface
        )
        colours.append(surface)
    assert colours[0] != colours[1]


def test_a_print_has_every_panel_at_the_width_of_the_paper(browser: Browser, small: Path) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 700}, color_scheme="dark")
    seen = opened(context, small)
    expect(seen.page.locator("#panel-in_flight .main-svg").first).to_be_visible()
    seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    seen.page.emulate_media(media="print")
    widths = seen.page.evaluate(
        "[...document.querySelectorAll('.panel .plot')].map(box => box.layout.width)"
    )
    assert widths == [1000] * len(PANELS)
    surface = seen.page.evaluate(
        "getComputedStyle(document.documentElement).getPropertyValue('--surface').trim()"
    )
    assert surface == "#ffffff"
    assert seen.quiet()
    context.close()


def test_a_picture_of_the_whole_page_has_every_panel(browser: Browser, small: Path) -> None:
    """Those that were never in sight too."""
    context = browser.new_context(viewport={"width": 1280, "height": 500})
    page = opened(context, small)
    for key in PANELS:
        expect(page.page.locator(f"#panel-{key} .main-svg").first).to_be_attached()
    assert page.page.evaluate("scrollY") == 0
    assert page.quiet()
    context.close()
