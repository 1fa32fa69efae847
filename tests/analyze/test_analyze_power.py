"""Energy from samples: what makes it valid, what takes that away, and whose GPUs count."""

from __future__ import annotations

import csv
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from analyze_factory import inputs, record, window

from inferometer.analyze import analyze_point
from inferometer.analyze.power import gpu_figures, host_figures, power_figures
from inferometer.core import Gpu, GpuReport, Sample, Throttle, Window
from inferometer.metrics import Figure

NS = 1_000_000_000
RATES = {
    f"{kind}_tok_s": Figure(rate) for kind, rate in (("input", 90), ("output", 10), ("total", 100))
}


def report(*deployment: str, problem: str | None = None) -> GpuReport:
    return GpuReport(
        source="nvml",
        driver="1",
        power_field="instant",
        interval_s=1.0,
        gpus=tuple(Gpu(uuid, i, "g", None, None) for i, uuid in enumerate("ab")),
        deployment=deployment,
        chosen_by="processes",
        problem=problem,
    )


def ten_seconds() -> Window:
    return replace(window(), start_ns=0, end_ns=10 * NS, declared_s=10.0)


def steady(uuid: str, watts: float, name: str = "gpu.power_w") -> list[Sample]:
    """A value a second, from a second before the window to a second after."""
    return [Sample(second * NS, name, uuid, watts) for second in range(-1, 12)]


def test_energy_is_of_the_deployment_alone() -> None:
    samples = steady("a", 300.0) + steady("b", 100.0)
    one = power_figures(samples, report("a"), ten_seconds(), RATES)
    both = power_figures(samples, report("a", "b"), ten_seconds(), RATES)
    assert one["energy_j"].value == pytest.approx(3_000)
    assert both["energy_j"].value == pytest.approx(4_000)
    assert both["power_w"].value == pytest.approx(400)
    assert both["power_w_per_gpu"].value == pytest.approx(200)
    assert both["energy_j"].why == "board power, instant, by nvml"


def test_joules_a_token_are_alternatives() -> None:
    found = power_figures(steady("a", 300.0), report("a"), ten_seconds(), RATES)
    per = {kind: found[f"j_per_{kind}_token"].value for kind in ("input", "output", "total")}
    assert per == pytest.approx({"input": 3_000 / 900, "output": 30.0, "total": 3.0})


@pytest.mark.parametrize(
    ("samples", "given", "why"),
    [
        (steady("a", 300.0), None, "GPUs were not watched"),
        (steady("a", 300.0), report("a", problem="cannot tell"), "cannot tell"),
        (steady("a", 300.0), report("a", "b"), "b: it told no power"),
        (
            steady("a", 300.0) + steady("b", 300.0)[:9],
            report("a", "b"),
            "b: the samples do not bracket the window",
        ),
        (steady("a", 300.0)[3:], report("a"), "do not bracket"),
        (steady("a", 300.0)[:5] + steady("a", 300.0)[9:], report("a"), "a gap of 5.0 s"),
        (
            steady("a", 300.0)
            + [Sample(s * NS, "gpu.energy_j", "a", s * 400.0) for s in range(-1, 12)],
            report("a"),
            "energy counter says 4000 J, not 3000 J",
        ),
    ],
)
def test_what_makes_energy_invalid(
    samples: list[Sample], given: GpuReport | None, why: str
) -> None:
    found = power_figures(samples, given, ten_seconds(), RATES)
    assert {figure.value for figure in found.values()} == {None}
    assert why in (found["energy_j"].why or "")
    assert why in (found["j_per_output_token"].why or "")


def test_a_card_in_instances_has_no_power_of_its_own() -> None:
    whole = report("a", "b")
    divided = replace(whole.gpus[1], split=True)
    told = steady("a", 300.0) + steady("b", 300.0)
    found = power_figures(told, replace(whole, gpus=(whole.gpus[0], divided)), ten_seconds(), RATES)
    assert found["energy_j"] == (
        None,
        "b: it is divided into instances (MIG), and its board power is of all of them",
    )
    other = replace(report("a"), gpus=(whole.gpus[0], divided))
    assert power_figures(told, other, ten_seconds(), RATES)["energy_j"].value == 3_000


def test_an_energy_counter_is_compared_where_some_readings_lack_it() -> None:
    """Every third reading has it: the check is not dropped for that."""
    counter = [Sample(s * NS, "gpu.energy_j", "a", s * 300.0) for s in range(-1, 12, 3)]
    found = power_figures(steady("a", 300.0) + counter, report("a"), ten_seconds(), RATES)
    assert found["energy_j"].value == pytest.approx(3_000)
    assert (
        found["energy_j"].why == "board power, instant, by nvml; its energy counter agrees (+0.0%)"
    )
    double = [replace(s, value=2 * s.value) for s in counter]
    wrong = power_figures(steady("a", 300.0) + double, report("a"), ten_seconds(), RATES)
    assert wrong["energy_j"].why == "a: its energy counter says 6000 J, not 3000 J"


def test_host_memory_with_shared_pages_counted_once_is_a_figure_of_its_own() -> None:
    every = steady("", 9e9, "engine.resident_bytes")
    once = [Sample(3 * NS, "engine.shared_once_bytes", "", 6e9)]
    found = host_figures([*every, *once], ten_seconds())
    assert found["engine_resident_bytes"].value == 9e9
    assert found["engine_pss_bytes"].value == 6e9
    assert host_figures(every, ten_seconds())["engine_pss_bytes"].value is None


def test_memory_that_no_process_shows_is_taken_from_the_machine() -> None:
    before = [Sample(-9 * NS, "host.memory_used_bytes", "", 10e9)]
    later = steady("", 198e9, "host.memory_used_bytes")
    engine = steady("", 9e9, "engine.resident_bytes")
    taken = host_figures([*before, *later, *engine], ten_seconds())["host_memory_taken_bytes"]
    assert taken == (188e9, None)
    up_already = host_figures([*before, *later], ten_seconds())["host_memory_taken_bytes"]
    assert up_already.value is None
    assert "was up already" in (up_already.why or "")


def test_of_an_engine_that_was_up_already_the_reason_is_told() -> None:
    memory = [Sample(-9 * NS, "host.memory_used_bytes", "", 10e9)]
    memory += steady("", 12e9, "host.memory_used_bytes")
    engine = steady("", 9e9, "engine.resident_bytes")
    unknown = host_figures(memory, ten_seconds(), up_already=True)
    assert "its processes were not found" in (unknown["engine_cpu_share"].why or "")
    assert "its processes were not found" in (unknown["host_other_cpu_share"].why or "")
    found = host_figures([*memory, *engine], ten_seconds(), up_already=True)
    assert found["engine_resident_bytes"].value == 9e9
    # What it holds was there before, found or not.
    assert found["host_memory_taken_bytes"].value is None
    assert "not found" not in (found["engine_cpu_share"].why or "")
    alone = replace(report("a"), chosen_by="all")
    shared = gpu_figures([], alone, ten_seconds())["gpu_shared_share"]
    assert shared == (None, "whose processes are on the GPUs was not known")


def test_a_wall_clock_that_steps_invalidates_energy() -> None:
    steps = [
        Sample(second * NS, "host.clock_step_s", "", 0.0 if second < 5 else 2.0)
        for second in range(11)
    ]
    found = power_figures(steady("a", 300.0) + steps, report("a"), ten_seconds(), RATES)
    assert found["energy_j"].value is None
    assert host_figures(steps, ten_seconds())["clock_step_s"].value == 2.0


def test_heat_is_throttling_and_the_power_limit_is_not() -> None:
    bits = [Throttle.POWER, Throttle.POWER | Throttle.THERMAL, 0, 0]
    samples = [Sample(i * NS, "gpu.throttle", "a", float(bit)) for i, bit in enumerate(bits)]
    found = gpu_figures(samples, report("a"), ten_seconds())
    assert found["gpu_throttled_share"].value == 0.25
    assert found["gpu_power_capped_share"].value == 0.5
    assert found["gpu_sm_clock_mhz"].value is None


def test_a_stranger_on_the_card_degrades_the_point() -> None:
    ok = [record(i * 10, [i * 10 + 5, i * 10 + 9], completion=2) for i in range(1, 30)]
    given = replace(inputs(ok), gpus=report("a"), samples=steady("a", 1.0, "gpu.other_processes"))
    codes = {reason.code for reason in analyze_point(given).verdict.reasons}
    alone = replace(given, samples=steady("b", 1.0, "gpu.other_processes"))
    assert "gpu_shared" in codes
    assert "gpu_shared" not in {r.code for r in analyze_point(alone).verdict.reasons}


def test_power_that_the_plan_requires_and_is_not_there_invalidates_the_point() -> None:
    ok = [record(i * 10, [i * 10 + 5, i * 10 + 9], completion=2) for i in range(1, 30)]
    given = inputs(ok)
    asked = replace(given, plan=replace(given.plan, require_power="native"))
    (reason,) = [r for r in analyze_point(asked).verdict.reasons if r.code == "power_invalid"]
    assert "GPUs were not watched" in reason.message
    assert "power_invalid" not in {r.code for r in analyze_point(given).verdict.reasons}


def test_a_recorded_power_log_replayed(shared_data: Path) -> None:
    """Half-second samples of a real card: the trapezoid equals the mean power times the time."""
    with (shared_data / "h200-vllm" / "power.csv").open() as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file)]
    samples = []
    for row in rows:
        if row[0][:4].isdecimal():
            at = datetime.strptime(row[0], "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC)
            samples.append(
                Sample(round(at.timestamp() * 1e3) * 1_000_000, "gpu.power_w", "a", float(row[1]))
            )
    assert len(samples) > 100
    first, last = samples[0].at_ns, samples[-1].at_ns
    whole = replace(ten_seconds(), start_ns=first, end_ns=last, declared_s=(last - first) / NS)
    found = power_figures(samples, report("a"), whole, RATES)["power_w"]
    plain = sum(sample.value for sample in samples) / len(samples)
    assert found.value == pytest.approx(plain, rel=0.02)
