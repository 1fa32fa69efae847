"""Which acceptance a plan wants, and what another one does to a point."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from analyze_factory import MS, inputs, record

from inferometer.analyze import analyze_point
from inferometer.analyze.acceptance import Target, acceptance_target
from inferometer.catalog import acceptance_curves
from inferometer.core import AgenticCoding, MetricsReport, Reason, Sample
from inferometer.plan import expand, load_configs, load_recipes, read_file, resolve


def plan(
    argv: tuple[str, ...] = (),
    env: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
) -> Target | None:
    return acceptance_target(replace(inputs([]).plan, argv=argv, env=env or {}, files=files or {}))


ENGINES = ("vllm", "sglang", "trt", "atom")
VLLM = {"method": "mtp", "num_speculative_tokens": 3}
SYNTHETIC = {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.49}


@pytest.mark.parametrize(
    ("argv", "env", "mode", "length"),
    [
        (("--speculative-config", json.dumps(VLLM | SYNTHETIC)), {}, "synthetic", 2.49),
        ((f"--speculative_config={json.dumps(VLLM | SYNTHETIC)}",), {}, "synthetic", 2.49),
        (("--speculative-config", json.dumps(VLLM)), {}, "model", None),
        (
            (
                *("--speculative-config.rejection_sample_method", "synthetic"),
                "--speculative-config.synthetic_acceptance_length=2.1",
            ),
            {},
            "synthetic",
            2.1,
        ),
        (
            ("--speculative-algorithm", "EAGLE"),
            {"SGLANG_SIMULATE_ACC_LEN": "2.49"},
            "synthetic",
            2.49,
        ),
        (("--speculative-algorithm", "EAGLE"), {"SGLANG_SIMULATE_ACC_LEN": "-1"}, "model", None),
        ((), {"TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS": "1.49"}, "synthetic", 2.49),
        (("--spec-decode-acceptance-length", "2.49"), {}, "synthetic", 2.49),
        (
            ("--num-speculative-tokens", "3", "--spec-decode-acceptance-rate", "0.5"),
            {},
            "synthetic",
            2.5,
        ),
        (("--num-speculative-tokens", "3"), {}, "model", None),
        (("--speculative-tokens", "3", "--acceptance-length", "2.49"), {}, "synthetic", 2.49),
    ],
)
def test_a_plan_says_which_acceptance_it_wants(
    argv: tuple[str, ...], env: dict[str, str], mode: str, length: float | None
) -> None:
    found = plan(argv, env)
    assert found is not None
    assert found.mode == mode
    assert found.length == pytest.approx(length)


def test_a_plan_without_speculation_wants_none() -> None:
    assert plan(("serve", "m", "--max-num-seqs", "8"), {"A": "1"}) is None
    assert plan(("--speculative-config", "not json")) is None
    for text in ("speculative_config: {decoding_type: MTP}", '{"a":1,"speculative_config":{}}'):
        assert plan(files={"options.yaml": text}) == Target("model", None, "options.yaml")


def test_every_bundled_recipe_says_its_acceptance(shared_data: Path) -> None:
    """Agentic points simulate what was measured on the model; at fixed lengths it judges."""
    data = shared_data / "inferencex"
    masters = [str(data / f"{vendor}-master.yaml") for vendor in ("amd", "nvidia")]
    configs = load_configs(masters, str(data / "runners.yaml"), read_file)
    recipes = load_recipes(read_file, ())
    seen: Counter[tuple[str, str | None]] = Counter()
    for point in expand(configs):
        if point.multi_node is not None:
            continue
        launch = resolve(point, recipes)
        found = acceptance_target(launch)
        words = (*launch.argv, *launch.env, *launch.files.values())
        # One model drafts nothing at high concurrency although its config says so.
        drafts = any("specul" in w.lower() or "spec_decode" in w.lower() for w in words)
        assert (found is not None) == (point.spec_decoding != "none" and drafts)
        if found is None:
            continue
        agentic = point.scenario == AgenticCoding()
        assert found.mode == ("synthetic" if agentic else "model")
        if agentic:
            prefix = point.model_prefix
            curves = [c.lengths.values() for c in acceptance_curves() if c.model == prefix]
            assert found.length is not None
            assert any(abs(found.length - at) < 0.005 for curve in curves for at in curve)
        seen[point.framework, found.mode] += 1
    assert set(seen) == {(e, m) for e in ENGINES for m in ("synthetic", "model")}


@pytest.mark.parametrize(
    ("accepted", "drafts", "off"),
    [(1.0, 400, None), (1.09, 400, None), (1.11, 400, 0.055), (0.89, 400, 0.055), (1.5, 40, None)],
)
def test_an_acceptance_that_is_not_the_simulated_one_degrades(
    accepted: float, drafts: float, off: float | None
) -> None:
    """Target 2; the bound is 5 %, from 400 verifications on."""
    given = inputs([record(sent, (sent + 50, sent + 90)) for sent in range(1_000, 9_000, 500)])
    series = []
    for name, count in (("drafts", drafts), ("accepted_tokens", accepted * drafts)):
        pairs = ((0, 0.0), (10_000 * MS, float(count)))
        series += [Sample(at, f"engine.{name}", "engine=vllm", value) for at, value in pairs]
    point = analyze_point(
        replace(
            given,
            samples=series,
            metrics=MetricsReport("/metrics", ("vllm",), 30, 0, None),
            plan=replace(given.plan, argv=("--spec-decode-acceptance-length", "2")),
        )
    )
    assert point.metrics["acceptance_target"] == 2
    assert point.metrics["acceptance_length"] == pytest.approx(1 + accepted)
    reasons = [r for r in point.verdict.reasons if r.code == "acceptance_off"]
    if off is None:
        assert reasons == []
    else:
        text = f"the acceptance length was {1 + accepted:.2f}, and 2.00 is to be simulated"
        expected = Reason("acceptance_off", "degraded", text, pytest.approx(off), 0.05)  # type: ignore[arg-type]
        assert reasons == [expected]
