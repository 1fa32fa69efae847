"""The page of a point as text: complete, escaped, small, and honest about what was not watched."""

from __future__ import annotations

import re
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plotly.offline import get_plotlyjs
from point_synthetic import WINDOW_S, Shape, run_directory
from report_synthetic import points
from test_report_page import Page, of

from inferometer.analyze.curves import MOST_POINTS
from inferometer.analyze.timeline import panels_of
from inferometer.report import render_point, times_of
from inferometer.report.details import detail_data
from inferometer.report.timeline import bars_of, deltas, scaled
from inferometer.store import RunDir

HOSTILE = "</script><img src=x onerror=\"alert('1')\">&amp;"


def page_of(path: Path, shape: Shape) -> Page:
    run, name = run_directory(path / "run", shape)
    return Page(render_point(times_of(RunDir(run).point(name), "run-1")))


def data_of(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(page.blocks["data"])
    return found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return page_of(tmp_path_factory.mktemp("point"), Shape())


def test_the_head_says_who_it_is_and_what_it_is_worth(page: Page) -> None:
    for text in ("dsr1-fp8-h200-vllm", "MEASURED", "valid", "60.0 s of 60.0 s asked", "p50"):
        assert text in page.text
    assert "client, /metrics, nvml" in page.text
    assert "2 x H200, 150 GB, limit 700 W, up to 1,980 MHz; driver 580" in page.text
    assert "0.26.0" in page.text


def test_all_that_was_watched_is_drawn(page: Page) -> None:
    drawn = {panel["key"]: panel for panel in data_of(page)["panels"]}
    assert list(drawn) == [
        *("in_flight", "queue", "kv", "tokens", "gaps", "prefix", "power", "clock", "throttle"),
        "host",
    ]
    names = {key: [curve["name"] for curve in panel["curves"]] for key, panel in drawn.items()}
    assert names["power"] == names["clock"] == ["GPU 0", "GPU 1", "limit"]
    assert names["throttle"] == ["at the power limit", "by heat or hardware"]
    assert [key for key, panel in drawn.items() if panel["log"]] == ["gaps"]
    assert names["tokens"] == ["by the client", "by the engine"]
    assert names["prefix"] == ["by usage", "engine, device"]
    assert "by the records" in names["in_flight"]


def test_the_curves_say_what_was_sampled(page: Page) -> None:
    drawn = {panel["key"]: panel["curves"] for panel in data_of(page)["panels"]}
    engine = drawn["tokens"][1]
    known = [v / 10 ** engine["scale"] for v in engine["values"] if v is not None]
    assert known == pytest.approx([40.0] * len(known), rel=1e-3)
    assert len(known) > WINDOW_S
    hit = drawn["prefix"][1]
    assert {v for v in hit["values"] if v is not None} == {7500}
    assert hit["scale"] == 2
    limit = drawn["power"][2]
    assert {v / 10 ** limit["scale"] for v in limit["values"]} == {700.0}
    for curve in drawn["throttle"]:  # one card of two, in some of the bins
        shares = {v / 10 ** curve["scale"] for v in curve["values"] if v is not None}
        assert {0.0, 50.0} <= shares
        assert max(shares) == 50.0
    power = drawn["power"][0]
    assert max(power["values"]) / 10 ** power["scale"] == pytest.approx(300 + 350 * 0.9, rel=1e-2)


def test_every_request_is_there_with_its_times(page: Page) -> None:
    bars = data_of(page)["requests"]
    assert bars["total"] == sum(bars["counts"]) == len(bars["opened"]) == 320
    assert sorted(set(bars["lanes"])) == list(range(8))
    assert max(bars["tracks"]) > 0
    first_row = list(accumulate(bars["opened"][: bars["counts"][0]]))
    assert first_row[0] == -100_000  # ten seconds before the window, in tenths of a millisecond
    assert bars["id"][0] == "0-0000-00000"
    assert bars["prefix"] == "00c0ffee-000"
    assert sum(bars["failed"][status] for status in bars["status"]) == 1


def test_failed_requests_come_first_in_the_table(page: Page) -> None:
    rows = page.text[page.text.rindex("Output") :]
    assert "00c0ffee-0001-0000-00007" in rows[:40]
    assert "timeout" in rows[:120]
    assert sum(tag == "tr" for tag, _ in page.tags) == 201 + 1 + plays_of(page)


def plays_of(page: Page) -> int:
    found = re.search(r"(\d+) sessions as a table, the longest first", page.text)
    assert found
    return int(found[1])


def test_sessions_are_a_table_by_how_long_they_took(page: Page) -> None:
    start = page.text.index("sessions as a table")
    table = page.text[start : page.text.index("requests as a table", start + 20)]
    assert table.count("00c0ffee-") == plays_of(page) > 1
    assert "Critical path s" in table


def test_what_was_not_watched_says_why(tmp_path: Path) -> None:
    page = page_of(tmp_path, Shape(watched=False))
    for text in (
        "running: vLLM: no vllm:num_requests_running on /metrics",
        "the client's gauge: no sample",
        "not watched: no driver",
        "not watched: no sample of this machine's cores",
    ):
        assert text in page.text
    drawn = [panel["key"] for panel in data_of(page)["panels"]]
    assert drawn == ["in_flight", "tokens", "gaps", "prefix"]


def test_many_cards_are_three_curves(tmp_path: Path) -> None:
    drawn = {p["key"]: p for p in data_of(page_of(tmp_path, Shape(gpus=9)))["panels"]}
    spread = ["lowest", "mean", "highest", "limit"]
    assert [c["name"] for c in drawn["power"]["curves"]] == spread


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    page = page_of(tmp_path, Shape(word=HOSTILE))
    assert not any(tag == "img" for tag, _ in page.tags)
    assert HOSTILE in page.text
    assert any(HOSTILE in name for name in data_of(page)["requests"]["sessions"])


def test_the_page_asks_for_nothing(page: Page) -> None:
    policy = next(page.attributes("content"))
    assert policy.startswith("utf-8") or "default-src 'none'" in policy
    assert not [value for value in page.attributes("src") if value]
    assert all(not link.startswith("http") for link in page.attributes("href") if link)


def test_the_page_leads_to_what_it_is_made_of(page: Page, tmp_path: Path) -> None:
    links = [link for link in page.attributes("href") if link and link[0] not in "#d"]
    tables, accounts = links[:2], links[2:]
    assert tables == ["records.parquet", "samples.parquet"]
    assert accounts == ["result.json", "launch.json", "client.json"]
    run, name = run_directory(tmp_path / "run", Shape(lanes=1))
    elsewhere = render_point(times_of(RunDir(run).point(name), "run-1"), beside=False)
    assert "records.parquet (every request)" in elsewhere
    assert "href='records.parquet'" not in elsewhere


def test_ten_thousand_requests_are_a_small_page(tmp_path: Path) -> None:
    run, name = run_directory(tmp_path / "run", Shape(lanes=50, each=200))
    times = times_of(RunDir(run).point(name), "run-1")
    size = len(render_point(times).encode()) - len(get_plotlyjs().encode())
    assert size < 3_000_000
    assert bars_of(times.watched.table, times.words).total == 10_000
    for panel in panels_of(times.watched):
        assert all(len(curve.at_ns) <= MOST_POINTS for curve in panel.curves)


def test_more_requests_than_a_picture_holds_are_whole_lanes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inferometer.report.timeline.MOST_BARS", 100)
    page = page_of(tmp_path, Shape())
    assert "80 of 320 requests: those of the first 2 lanes" in page.text
    assert data_of(page)["requests"]["total"] == 320


@given(st.lists(st.floats(-1e9, 1e9) | st.just(float("nan")), max_size=30))
def test_coded_values_are_those_given_to_four_digits(values: list[float]) -> None:
    scale, coded = scaled(np.array(values, dtype=np.float64))
    top = max((abs(v) for v in values if v == v), default=0.0)
    for value, code in zip(values, coded, strict=True):
        if code is None:
            assert value != value
        else:
            assert abs(code / 10**scale - value) <= max(top / 1000, 1e-12)


@given(st.lists(st.integers(-(10**12), 10**12), max_size=30))
def test_differences_add_up_again(values: list[int]) -> None:
    assert list(accumulate(deltas(np.array(values, dtype=np.int64)))) == values


def test_the_page_of_the_run_names_the_command() -> None:
    found = detail_data(of(points()[0]))
    name = points()[0].result.point.id
    assert f"inferometer report . --point {name}" in found["texts"]  # type: ignore[operator]
