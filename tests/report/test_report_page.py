"""The page as text: complete, escaped, honest about what is unknown. No browser."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import orjson
import pytest
from report_synthetic import MACHINES, SCENARIOS, SPREADS, plan, point, points, result, view
from report_synthetic import simulated as as_simulated

from inferometer.core import Origin, Result
from inferometer.report import PointView, RunView, render
from inferometer.report.charts import (
    DASHES,
    SHAPES,
    chart_data,
    frontier,
    panels,
    reason,
    series_names,
    with_interval,
)
from inferometer.report.details import command, detail_data, setting_rows
from inferometer.report.fields import DISTRIBUTIONS, FIELDS, field, significant
from inferometer.report.page import embedded
from inferometer.report.table import table

HOSTILE = "</script><img src=x onerror=\"alert('1')\">&amp;"


class Page(HTMLParser):
    """Tags with attributes, the text outside scripts, and the JSON blocks."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.blocks: dict[str, str] = {}
        self._inside: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside = dict(attrs).get("id") or tag

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is None:
            self.text += data
        else:
            self.blocks[self._inside] = self.blocks.get(self._inside, "") + data

    def attributes(self, name: str) -> Iterator[str]:
        for _, attrs in self.tags:
            if (value := attrs.get(name)) is not None:
                yield value


def one(**changes: object) -> PointView:
    """One valid point at concurrency 8, with fields of its result replaced."""
    at = point(MACHINES[1], SCENARIOS[0], SPREADS[0], 8)
    return PointView(replace(result(MACHINES[1], at), **changes), plan(at))  # type: ignore[arg-type]


def of(*made: PointView) -> RunView:
    return view(tuple(made))


@pytest.fixture(scope="module")
def html() -> str:
    return render(view())


# ---- figures


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0.0, "0"),
        (1234.5, "1,230"),
        (999.6, "1,000"),
        (12.345, "12.3"),
        (0.5, "0.500"),
        (0.012344, "0.0123"),
        (0.0000123, "0.0000123"),
        (0.00000123, "1.23e-6"),
        (-4.567, "-4.57"),
        (math.inf, "∞"),
        (math.nan, "–"),
    ],
)
def test_three_significant_digits(value: float | None, shown: str) -> None:
    assert significant(value) == shown


def test_units_are_those_of_the_registry() -> None:
    assert field("ttft_p90_s").text(0.25) == "0.250 s"
    assert field("tpot_p50_s").text(0.0123) == "12.3 ms"
    assert field("cached_share").text(0.931) == "93.1 %"
    assert field("ttft_p50_s").text(None) == "–"


def test_a_metric_nobody_listed_keeps_its_raw_name() -> None:
    assert field("new_metric_j").label == "new_metric_j"
    assert field("new_metric_j").text(1.5) == "1.50"


def test_every_published_distribution_is_listed() -> None:
    for base in ("ttft", "ttft_scheduled", "ttfv", "e2el", "tpot", "chunk_gap", "itl"):
        for statistic in ("mean", "p50", "p75", "p90", "p95", "p99"):
            assert f"{base}_{statistic}_s" in FIELDS
            assert f"{base}_{statistic}_s" in DISTRIBUTIONS
    assert "e2e_intvty_p90" in DISTRIBUTIONS
    assert "ttft_p50_lo_s" not in DISTRIBUTIONS


# ---- unknown is not zero


def test_a_null_metric_is_a_dash_with_its_reason() -> None:
    given = one()
    values = dict(given.result.metrics) | {"ttft_p50_s": None}
    row = table(of(one(metrics=values, notes={"ttft_p50_s": "no first token"})))
    assert "<td class='number null' title='no first token'>–</td>" in row
    cells = re.findall(r"<td class='number null'.*?</td>", row)
    assert all("data-v" not in cell for cell in cells)


def test_an_absent_metric_says_that_no_reason_is_recorded() -> None:
    assert reason(one(metrics={}).result, "intvty_p50") == "no reason recorded"
    assert reason(one(metrics={"intvty_p50": math.inf}).result, "intvty_p50") == (
        "not a finite number"
    )


def test_a_null_axis_value_is_null_in_the_data_and_off_the_frontier() -> None:
    known = one()
    values = dict(known.result.metrics) | {"intvty_p50": None}
    run = of(known, one(metrics=values, notes={"intvty_p50": "too few"}))
    data = orjson.loads(orjson.dumps(chart_data(run, panels(run))))
    assert data["values"]["intvty_p50"][1] is None
    assert data["reasons"]["intvty_p50"] == {"1": "too few"}
    fronts = data["panels"][0]["series"][0]["frontiers"]
    assert fronts["intvty_p50 total_tok_s_per_gpu"] == [0]


def test_interval_is_shown_only_where_both_ends_are_known() -> None:
    values: dict[str, float | None] = {"ttft_p50_s": 0.3, "ttft_p50_lo_s": 0.29}
    assert with_interval(one(metrics=values).result, "ttft_p50_s") == "0.300 s"
    values["ttft_p50_hi_s"] = 0.32
    assert with_interval(one(metrics=values).result, "ttft_p50_s") == "0.300 s (0.290–0.320)"


# ---- panels, series, frontiers


def test_every_point_is_in_one_series_of_one_panel() -> None:
    drawn = panels(view())
    assert [panel.label for panel in drawn] == ["1k1k", "8k1k", "agentic"]
    members = [i for panel in drawn for series in panel.series for i in series.members]
    assert sorted(members) == list(range(len(points())))


def test_a_second_model_is_named_and_never_shares_a_panel() -> None:
    given = one()
    other = replace(given.result, point=replace(given.result.point, model="zai-org/GLM-5"))
    drawn = panels(of(given, replace(given, result=other)))
    assert [panel.label for panel in drawn] == [
        "deepseek-ai/DeepSeek-R1-0528 · 1k1k",
        "zai-org/GLM-5 · 1k1k",
    ]


def test_configs_are_named_where_a_hardware_has_several() -> None:
    given = one().result
    other = replace(given, point=replace(given.point, config="dsr1-fp4-b200-trt"))
    assert series_names([given]) == ["b200"]
    assert series_names([given, other]) == ["b200 · dsr1-fp8-b200-vllm", "b200 · dsr1-fp4-b200-trt"]


def test_no_line_joins_measured_and_simulated_points() -> None:
    drawn = panels(of(one(), as_simulated(one())))
    names = [series.name for series in drawn[0].series]
    assert names == ["b200 · measured", "b200 · simulated"]


def at_xy(x: float, y: float, level: str = "valid") -> Result:
    given = one().result
    judged = replace(given.verdict, level=level)  # type: ignore[arg-type]
    values = {"intvty_p50": x, "ttft_p50_s": x, "total_tok_s_per_gpu": y}
    return replace(given, metrics=values, verdict=judged)


def test_frontier_by_hand_without_invalid_points() -> None:
    rows = [at_xy(10, 90), at_xy(20, 80, "degraded"), at_xy(15, 70), at_xy(30, 60)]
    rows.append(at_xy(40, 100, "invalid"))
    rate = "total_tok_s_per_gpu"
    assert frontier(rows, range(5), "intvty_p50", rate, "max") == [0, 1, 3]
    assert frontier(rows, range(5), "ttft_p50_s", rate, "min") == [0]
    assert frontier(rows, [2, 3], "intvty_p50", rate, "max") == [2, 3]


def test_shape_and_dash_together_tell_many_series_apart() -> None:
    looks = {(SHAPES[i % len(SHAPES)], DASHES[i % len(DASHES)]) for i in range(35)}
    assert len(looks) == 35


# ---- the launch


def test_the_command_is_quoted_for_a_shell() -> None:
    shown = command(("serve", "a b", "--json", '{"k": "$X"}', "--on"), {"A": "1", "B": "x y"})
    assert shown == (
        "env \\\n  A=1 \\\n  'B=x y' \\\n  serve 'a b' \\\n  --json '{\"k\": \"$X\"}' \\\n  --on"
    )
    assert command(("serve",), {}) == "serve"


def test_settings_carry_their_origin_and_lose_none() -> None:
    given = plan(point(MACHINES[0], SCENARIOS[0], SPREADS[0], 8))
    stray = dict(given.origins) | {"argv.--gone": Origin("x.yaml", 3, None, None)}
    rows = {row[0]: row[1:] for row in setting_rows(replace(given, origins=stray))}
    assert rows["argv.--max-num-seqs"] == (
        "8",
        "recipes/vllm.yaml:31",
        "conc < 512",
        "next_pow2(conc)",
    )
    assert rows["argv.--trust"][0] == "set"
    assert rows["client.grace_s"] == ("30", "defaults", "", "")
    assert rows["workload.requests"] == ("–", "–", "", "")
    assert rows["argv.--gone"] == ("–", "x.yaml:3", "", "")


def test_a_flag_given_twice_shows_both_values() -> None:
    given = plan(point(MACHINES[0], SCENARIOS[0], SPREADS[0], 8))
    rows = setting_rows(replace(given, argv=("serve", "--lora", "a", "--lora=b")))
    assert dict(row[:2] for row in rows)["argv.--lora"] == "a b"


def test_details_hold_every_metric_with_its_note_and_every_count() -> None:
    given = one(notes={"counters": "not compared", "requests_s": "assumed"})
    data = orjson.loads(orjson.dumps(detail_data(of(given))))
    texts, only = data["texts"], data["points"][0]
    shown = {texts[row[0]]: texts[row[3]] for group in only["groups"] for row in group["rows"]}
    assert "mystery_new_metric_j" in shown
    assert shown["Requests"] == "assumed"
    in_matrix = sum(len(row["cells"]) for row in only["matrix"]) - 2  # interactivity has no mean
    assert in_matrix + len(shown) == len(given.result.metrics)
    assert [[texts[i] for i in row] for row in only["remarks"]] == [["counters", "not compared"]]
    assert ["ok", "320"] in [[texts[i] for i in row] for row in only["counts"]]


# ---- the page


def test_the_page_names_the_run_the_machine_and_what_is_unfinished(html: str) -> None:
    page = Page(html)
    assert page.tags[0] == ("html", {"lang": "en"})
    for text in (
        "DeepSeek-R1 on H200, B200 and MI355X",
        "2026-10-02-dsr1-fp8",
        "2 x AMD EPYC 9575F, 128 cores",
        "2 points have no result",
        "dsr1-fp8-h200-vllm_8k1k_tp4_c512",
    ):
        assert text in page.text
    assert re.sub(r"\s+", "", page.text).count("153valid6degraded3invalid2unfinished") == 1


def test_the_page_says_what_was_replayed() -> None:
    def page_of(source: str) -> str:
        given = one()
        work = replace(given.plan.workload, sessions=source)
        return Page(render(of(replace(given, plan=replace(given.plan, workload=work))))).text

    said = page_of("synthetic:quickstart")
    assert "calibrated on 48 recorded sessions, at 1/16 of their tokens and 1/100 of" in said
    assert "<b>" in page_of("traces/<b>")
    fixed = replace(one().plan.workload, kind="fixed", sessions=None)
    plain = replace(one(), plan=replace(one().plan, workload=fixed))
    assert "Sessions" not in Page(render(of(plain))).text


@pytest.mark.parametrize(
    ("made", "badges"),
    [
        ((one(),), ["MEASURED"]),
        ((as_simulated(one()),), ["SIMULATED", "VIRTUAL TIME"]),
        ((one(), as_simulated(one())), ["MEASURED", "SIMULATED", "VIRTUAL TIME"]),
    ],
)
def test_badges_come_from_the_points_not_from_the_run(
    made: tuple[PointView, ...], badges: list[str]
) -> None:
    assert re.findall(r"<b class='badge \w+'>([A-Z ]+)</b>", render(of(*made))) == badges


def test_a_server_that_nobody_named_is_no_hardware_that_is_named() -> None:
    given = one()
    at = replace(given.result.point, framework="external", hardware="unknown", image="external")
    said = Page(render(of(replace(given, result=replace(given.result, point=at))))).text
    assert "nobody named its GPU (bench --hardware)" in said
    assert "on the hardware named" not in said
    assert f"{given.result.gpus} a deployment, by bench --gpus (default 1)" in said
    assert "by bench --gpus" not in Page(render(of(given))).text


def test_a_run_without_a_point_still_makes_a_page() -> None:
    page = Page(render(replace(view(()), unfinished=("a_c1",))))
    assert "No point is finished yet" in page.text
    assert "1 point has no result" in page.text
    assert orjson.loads(page.blocks["chart-data"])["points"] == []


def test_hostile_names_stay_text() -> None:
    given = one()
    at = replace(given.result.point, config=HOSTILE, hardware=HOSTILE, model=HOSTILE)
    bad = replace(given.result.verdict, labels=(HOSTILE,))
    made = replace(given, result=replace(given.result, point=at, verdict=bad, digest=HOSTILE))
    made = replace(made, plan=replace(made.plan, image=HOSTILE, argv=(HOSTILE,)))
    run = replace(of(made), title=HOSTILE, run_id=HOSTILE, unfinished=(HOSTILE,))
    page = Page(render(replace(run, machine={HOSTILE: HOSTILE})))
    assert not [tag for tag, attrs in page.tags if tag == "img" or "onerror" in attrs]
    assert sum(tag == "script" for tag, _ in page.tags) == 5
    assert HOSTILE in page.text
    assert orjson.loads(page.blocks["chart-data"])["points"][0]["hover"][0] == [HOSTILE]
    assert HOSTILE in orjson.loads(page.blocks["detail-data"])["texts"]


def test_embedded_json_holds_no_markup() -> None:
    text = embedded({"a": HOSTILE})
    assert not set(text) & set("<>&")
    assert orjson.loads(text) == {"a": HOSTILE}


def test_nothing_refers_outside_the_file(html: str) -> None:
    page = Page(html)
    for name in ("src", "href", "action", "data", "poster", "srcset"):
        for value in page.attributes(name):
            assert value.startswith(("#", "data:")), (name, value)
    own = page.blocks["style"] + "".join(
        path.read_text(encoding="utf-8") for path in assets() if path.suffix != ".css"
    )
    assert "url(" not in own
    assert "http" not in own.replace("http-equiv", "")


def assets() -> list[Path]:
    folder = Path(__file__).resolve().parents[2] / "src" / "inferometer" / "report"
    found = [path for path in folder.iterdir() if path.suffix in (".js", ".css", ".html")]
    assert len(found) == 10
    return found


def test_links_within_the_page_have_a_target(html: str) -> None:
    page = Page(html)
    ids = set(page.attributes("id"))
    assert {value[1:] for value in page.attributes("href") if value.startswith("#")} <= ids


def test_the_table_has_a_row_a_point_and_names_the_columns(html: str) -> None:
    rows = re.findall(r"<tr id='point-\d+'", html)
    assert len(rows) == len(points())
    assert re.findall(r"<span class='codes'>(\w+)</span>", html).count("failed_share") == 3
