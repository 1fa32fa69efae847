"""Settings of arrivals: what goes together, and what could do nothing."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from test_plan_digest import CLIENT

from examples import AGENTIC as OLD
from inferometer.plan.settings import check_settings

AGENTIC = replace(OLD, prompt_rules="blocks-2")
POISSON = {"arrival": "poisson", "rate": 4.0}

SOUND: tuple[dict[str, object], ...] = (
    {},
    POISSON,
    POISSON | {"rate_from": 0.0, "rate_ramp_s": 60.0, "rate_ramp_steps": 2},
    {"arrival": "gamma", "rate": 4.0, "burstiness": 0.5, "cap_in_flight": True},
    {"arrival": "burst", "requests": 10, "duration_s": None},
    {"arrival": "timestamps"},
    {"conc_from": 1, "conc_ramp_s": 30.0},
)
FAULTY: tuple[tuple[dict[str, object], str, str], ...] = (
    ({"arrival": "poison"}, "arrival", "did you mean 'poisson'?"),
    ({"arrival": "constant"}, "rate", "constant arrivals need a rate"),
    ({"rate": 4.0}, "rate", "not with closed"),
    (POISSON | {"rate": 0.0}, "rate", "expected a number above 0, from 1e-9 to 1e9, got 0.0"),
    (POISSON | {"rate": float("inf")}, "rate", "expected a number above 0"),
    ({"arrival": "burst", "rate": 2.0}, "rate", "not with burst"),
    ({"arrival": "burst"}, "requests", "it needs a number of requests"),
    (POISSON | {"burstiness": 0.5}, "burstiness", "goes only with gamma arrivals, not with"),
    (POISSON | {"rate_from": 1.0}, "rate_ramp_s", "a ramp needs both"),
    (POISSON | {"rate_ramp_steps": 3}, "rate_ramp_steps", "goes only with rate_ramp_s"),
    (
        POISSON | {"rate_from": 1.0, "rate_ramp_s": 9.0, "rate_ramp_steps": 1},
        "rate_ramp_steps",
        "expected an integer of 2 or more",
    ),
    ({"cap_in_flight": True}, "cap_in_flight", "a closed loop is its own cap"),
    (POISSON | {"conc_from": 1, "conc_ramp_s": 5.0}, "conc_ramp_s", "only with a closed loop"),
    ({"conc_from": 1, "conc_ramp_s": 61.0}, "conc_ramp_s", "is longer than warmup_grace_s, 60"),
    ({"conc_ramp_s": 6.0}, "conc_ramp_s", "a ramp needs both"),
    (
        {"kind": "fixed", "isl": 8, "osl": 8, "arrival": "timestamps"},
        "arrival",
        "fixed lengths have no timestamps",
    ),
)


@pytest.mark.parametrize("given", SOUND)
def test_what_goes_together(given: dict[str, object]) -> None:
    checked = check_settings(asdict(CLIENT), asdict(AGENTIC) | given)
    assert not checked.faults
    assert checked.workload == replace(AGENTIC, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(("given", "field", "message"), FAULTY)
def test_what_does_not(given: dict[str, object], field: str, message: str) -> None:
    checked = check_settings(asdict(CLIENT), asdict(AGENTIC) | given)
    found = [(fault.path, fault.message) for fault in checked.faults]
    assert any(path == ("workload", field) and message in text for path, text in found), found
