"""What a live replay's contexts were: shares and drift, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from analyze_factory import inputs, record

from inferometer.analyze import analyze_point
from inferometer.analyze.columns import columns
from inferometer.analyze.live import NAMES, live_figures
from inferometer.core import Record, Status, Threading


def threaded(sent: float, recorded: int, prompt: int | None, live: int, canned: int) -> Record:
    made = record(sent, (sent + 100,), intended=recorded + 7, prompt=prompt, completion=1)
    return replace(made, threading=Threading(recorded, live, canned))


RECORDS = [threaded(1, 100, 100, 0, 0), threaded(2, 200, 210, 1, 0), threaded(3, 300, None, 1, 2)]


def test_shares_and_drift_by_hand() -> None:
    values = {name: figure.value for name, figure in live_figures(columns(RECORDS)).items()}
    assert values["live_turn_share"] == pytest.approx(2 / 3)
    assert values["live_reply_share"] == pytest.approx(2 / 4)
    # By the server's count; where it gives none, by what was meant: 0, 10 and 7 tokens.
    assert values["context_drift_mean_tokens"] == pytest.approx(17 / 3)
    assert values["context_drift_p50_tokens"] == pytest.approx(7)
    assert values["context_drift_share"] == pytest.approx(17 / 600)


def test_without_answers_a_share_of_them_is_unknown() -> None:
    figure = live_figures(columns(RECORDS[:1]))["live_reply_share"]
    assert (figure.value, figure.why) == (None, "no context had an answer in it")
    none = live_figures(columns([record(None, status=Status.CONNECT)]))
    assert {name: figure.value for name, figure in none.items()} == dict.fromkeys(NAMES)


def test_only_a_live_replay_has_them_and_its_label() -> None:
    canned = inputs(RECORDS, agentic=True)
    workload = replace(canned.plan.workload, replies="live")
    live = analyze_point(replace(canned, plan=replace(canned.plan, workload=workload)))
    plain = analyze_point(canned)
    assert set(NAMES) <= set(live.metrics)
    assert "live" in live.verdict.labels
    assert not set(NAMES) & set(plain.metrics)
    assert "live" not in plain.verdict.labels
