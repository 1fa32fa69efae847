"""Layers: how they are found and read, and what their rules resolve to."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from layer_samples import AGENTIC, DEFAULTS, FIXED, SESSIONS, recipes, recipes_of, refusal

from inferometer.core import (
    ClientSettings,
    LaunchPlan,
    Origin,
    Parallelism,
    RouterPlan,
    WorkloadSettings,
)
from inferometer.errors import InputError
from inferometer.plan import explain, list_files, load_recipes, read_file, recipe_roots, resolve
from inferometer.plan.names import POINT_NAMES, point_names


def test_the_built_in_engine_at_fixed_lengths() -> None:
    plan = resolve(FIXED, recipes())
    assert plan.image == "i:1"
    assert plan.argv == (
        *("inferometer", "engine", "simulated"),
        *("--model", "org/m"),
        *("--gpu", "h200"),
        *("--tensor-parallel-size", "2"),
        *("--precision", "fp8"),
        *("--max-num-batched-tokens", "8192"),
        *("--block-size", "64"),
        *("--seed", "0"),
        *("--host", "127.0.0.1"),
        *("--port", "{port}"),
        *("--max-num-seqs", "8"),
        *("--max-model-len", "1344"),
        "--no-enable-prefix-caching",
    )
    assert (plan.env, plan.files, plan.router) == ({}, {}, None)
    assert plan.client == ClientSettings(
        endpoint="completions",
        connect_timeout_s=10,
        first_byte_timeout_s=1800,
        between_bytes_timeout_s=600,
        total_timeout_s=3600,
        usage_every_chunk=True,
        ignore_eos=True,
        temperature=0,
        affinity_header="X-Session-ID",
        stop_failed_share=0.1,
        grace_s=30,
    )
    assert plan.workload == WorkloadSettings(
        kind="fixed",
        duration_s=None,
        requests=60,
        seed=42,
        isl=1024,
        osl=64,
        length_ratio=0.8,
        sessions=None,
        sessions_digest=None,
        replay_rules="none",
        warmup_requests_per_lane=2,
        warmup_grace_s=1800,
        start_min_share=0,
        start_max_share=0,
        tree_idle_cap_s=0,
        system_idle_cap_s=0,
        tokenizer="words",
        tokenizer_digest=None,
        prompt_form="text",
        prompt_rules="blocks-2",
    )


def test_the_built_in_engine_under_agentic_replay() -> None:
    point = dataclasses.replace(AGENTIC, spec_decoding="mtp")
    plan = resolve(point, recipes(site=SESSIONS))
    assert plan.argv[-7:] == (
        *("--max-num-seqs", "12"),
        "--enable-prefix-caching",
        *("--speculative-tokens", "3"),
        *("--acceptance-length", "2.49"),
    )
    assert "--max-model-len" not in plan.argv
    assert plan.client.endpoint == "chat"
    assert resolve(point, recipes()).workload.sessions is None
    assert plan.workload == WorkloadSettings(
        kind="agentic",
        duration_s=3600,
        requests=None,
        seed=42,
        isl=None,
        osl=None,
        length_ratio=1,
        sessions="synthetic:x",
        sessions_digest=None,
        replay_rules="agentx-1",
        warmup_requests_per_lane=10,
        warmup_grace_s=1800,
        start_min_share=0.25,
        start_max_share=0.75,
        tree_idle_cap_s=300,
        system_idle_cap_s=10,
        tokenizer="words",
        tokenizer_digest=None,
        prompt_form="text",
        prompt_rules="blocks-2",
    )


def test_a_server_that_already_runs_has_no_command() -> None:
    point = dataclasses.replace(FIXED, framework="external", hardware="unknown", max_model_len=None)
    plan = resolve(point, recipes())
    assert plan.argv == ()
    assert plan.client.usage_every_chunk is False


def test_every_value_knows_its_rule() -> None:
    site = "- when: conc > 4\n  argv:\n    --max-num-seqs: '{conc * 3}'\n  env: {A: 1}\n"
    plan = resolve(FIXED, recipes(site=site))
    engine = "inferometer/plan/recipes/engines/simulated.yaml"
    where = "conf/recipes/site.yaml"
    assert plan.origins["argv.--max-num-seqs"] == Origin(where, 3, "conc > 4", "{conc * 3}")
    assert plan.origins["env.A"] == Origin(where, 4, "conc > 4", None)
    assert plan.origins["argv.--model"].layer == engine
    assert plan.origins["workload.requests"].layer == DEFAULTS
    assert plan.origins["workload.requests"].expression == "{10 * conc}"
    settings = [f"client.{field.name}" for field in dataclasses.fields(ClientSettings)]
    settings += [f"workload.{field.name}" for field in dataclasses.fields(WorkloadSettings)]
    flags = [f"argv.{token}" for token in plan.argv if token.startswith("--")]
    assert set(plan.origins) == {"image", "command", "env.A", *settings, *flags}


def test_sections_override_by_key_and_null_drops() -> None:
    first = """
- image: "{image}-{precision}"
  argv: {--seed: null, --block-size: 128, --port: false, --new: true, --dp: "{dp_attn}"}
  env: {A: "{conc}", B: two, C: "true"}
  files: {"serve.yaml": "port: {port}\\nbatch: {conc}\\n", gone.txt: x}
  router: {name: r, version: "{precision}", argv: [router, "--dp={tp}"]}
"""
    second = """
- when: tp == 2
  env: {A: null}
  files: {gone.txt: null}
- when: tp == 4
  router: null
"""
    plan = resolve(FIXED, recipes(a=first, b=second))
    assert plan.image == "i:1-fp8"
    assert "--seed" not in plan.argv
    assert "--port" not in plan.argv
    assert "--dp" not in plan.argv
    assert plan.argv[plan.argv.index("--block-size") + 1] == "128"
    assert plan.argv[-1] == "--new"
    assert plan.env == {"B": "two", "C": "true"}
    assert plan.files == {"serve.yaml": "port: {port}\nbatch: 6\n"}
    assert plan.router == RouterPlan("r", "fp8", ("router", "--dp=2"))
    for dropped in ("argv.--seed", "argv.--port", "argv.--dp", "env.A", "files.gone.txt"):
        assert dropped not in plan.origins
    other = dataclasses.replace(FIXED, parallelism=Parallelism(4, 1, 1, 1, 1, False))
    assert resolve(other, recipes(a=first, b=second)).router is None


def test_engine_then_model_then_hardware_then_free_layers() -> None:
    def seeds(value: int) -> str:
        return f"- argv: {{--seed: {value}}}"

    def seed(plan: LaunchPlan) -> str:
        return plan.argv[plan.argv.index("--seed") + 1]

    layers = {"models__m": seeds(1), "models__other": seeds(9)}
    assert seed(resolve(FIXED, recipes(**layers))) == "1"
    layers |= {"hardware__h200": seeds(2), "hardware__b200": seeds(9)}
    assert seed(resolve(FIXED, recipes(**layers))) == "2"
    layers |= {"a": seeds(3), "b": seeds(4)}
    assert seed(resolve(FIXED, recipes(**layers))) == "4"


def test_a_layer_beside_the_config_hides_the_package_s_of_the_same_name() -> None:
    plan = resolve(FIXED, recipes(engines__simulated="- command: [my, '{model}']"))
    assert plan.argv == ("my", "org/m")


def test_an_unknown_framework_says_which_there_are() -> None:
    point = dataclasses.replace(FIXED, framework="simulatd")
    with pytest.raises(InputError) as caught:
        resolve(point, recipes(engines__mine="- command: [x]"))
    assert str(caught.value) == (
        "no recipe for framework 'simulatd'; did you mean 'simulated'?; "
        "known: atom, atom-disagg, dynamo, dynamo-sglang, dynamo-trt, dynamo-vllm, external, "
        "llamacpp, llmd-vllm, mine, sglang, sglang-disagg, simulated, tilert, trt, vllm"
    )


def test_names_of_a_point() -> None:
    names = point_names(AGENTIC)
    assert set(names) == POINT_NAMES
    assert (names["isl"], names["max_model_len"], names["kv_backend"]) == (None, None, "")
    assert point_names(FIXED)["isl"] == 1024


def test_layers_on_disk(tmp_path: Path) -> None:
    (tmp_path / "recipes" / "engines").mkdir(parents=True)
    (tmp_path / "recipes" / "engines" / "mine.yaml").write_text("- command: [mine]\n")
    (tmp_path / "recipes" / "site.yaml").write_text("- argv: {--x: 1}\n")
    masters = [str(tmp_path / "amd.yaml"), str(tmp_path / "nvidia.yaml")]
    roots = recipe_roots(masters)
    assert roots == (str(tmp_path / "recipes"),)
    assert list_files(roots[0]) == ("engines/mine.yaml", "site.yaml")
    assert list_files(str(tmp_path / "none")) == ()
    found = load_recipes(read_file, roots)
    point = dataclasses.replace(FIXED, framework="mine")
    assert resolve(point, found).argv == ("mine", "--x", "1")


def test_a_mapping_is_compact_json_and_later_rules_change_it_key_by_key() -> None:
    text = """
- command: [x]
  argv:
    --config: {method: mtp, tokens: "{tp + 1}", deep: {a: 1, b: "{dp_attn}"}, gone: 1}
- when: conc > 1
  argv:
    --config: {method: eagle3, gone: null, deep: {c: "x{conc}"}}
"""
    plan = resolve(FIXED, recipes(engines__simulated=text))
    expected = '{"method":"eagle3","tokens":3,"deep":{"a":1,"b":false,"c":"x6"}}'
    assert plan.argv == ("x", "--config", expected)
    assert plan.origins["argv.--config.method"].when == "conc > 1"
    assert plan.origins["argv.--config.tokens"].expression == "{tp + 1}"
    assert "argv.--config.gone" not in plan.origins


def test_a_single_value_and_a_mapping_take_each_others_place() -> None:
    base = "- {command: [x], argv: {--a: {b: 1}, --c: 1}}\n"
    plan = resolve(FIXED, recipes(engines__simulated=base + "- argv: {--a: 2, --c: {d: 3}}"))
    assert plan.argv == ("x", "--a", "2", "--c", '{"d":3}')
    assert {"argv.--a", "argv.--c.d"} <= plan.origins.keys()
    assert not {"argv.--a.b", "argv.--c"} & plan.origins.keys()
    gone = resolve(FIXED, recipes(engines__simulated=base + "- argv: {--a: null, --c: {d: null}}"))
    assert gone.argv == ("x",)


def test_lists_splice_the_lists_that_expressions_make() -> None:
    text = """
- command: [x]
  argv:
    --sizes: [1, 2, "{steps(4, 2 * conc, 4)}"]
    --config: {sizes: ["{pow2_steps(1, 8)}", "{conc}", all]}
"""
    plan = resolve(FIXED, recipes(engines__simulated=text))
    assert plan.argv == ("x", "--sizes", "[1,2,4,8,12]", "--config", '{"sizes":[1,2,4,8,6,"all"]}')


def test_layers_agree_on_names_before_any_value_uses_them() -> None:
    layers = {
        "engines__simulated": "- {command: [x], argv: {--n: '{seqs * draft_tokens}'}}",
        "models__m": "- let: {draft_tokens: 3, seqs: '{2 * conc}'}",
        "site": "- {when: draft_tokens == 3, let: {seqs: '{seqs + 1}'}}",
    }
    assert resolve(FIXED, recipes(**layers)).argv == ("x", "--n", "39")
    del layers["models__m"], layers["site"]
    (problem,) = refusal(FIXED, **layers)
    assert problem.message.startswith("'draft_tokens' has no value at this point")


def test_content_of_a_file_may_be_data_or_text_and_site_placeholders_stay() -> None:
    text = """
- command: [x]
  env: {AT: "127.0.0.1:{port+1}"}
  files: {a.json: {port: "{port+12000}", n: "{conc}"}, b.txt: "n={conc} {result_dir}"}
"""
    plan = resolve(FIXED, recipes(engines__simulated=text))
    assert plan.env == {"AT": "127.0.0.1:{port+1}"}
    assert plan.files == {"a.json": '{"port":"{port+12000}","n":6}', "b.txt": "n=6 {result_dir}"}


def test_a_flag_and_a_file_may_have_another_name_in_this_launch() -> None:
    text = """
- command: [x]
  argv: {--tensor-parallel-size: 8, --config: o.yml}
  files: {options.yaml: {a: 1}}
  spell: {--tensor-parallel-size: --tp, options.yaml: "o{conc}.yml"}
"""
    plan = resolve(FIXED, recipes(engines__simulated=text))
    assert plan.argv == ("x", "--tp", "8", "--config", "o.yml")
    assert plan.files == {"o6.yml": '{"a":1}'}


def test_pairs_come_after_the_engine_and_the_model_and_compat_only_where_asked() -> None:
    texts = {
        "engines/simulated.yaml": "- {command: [x], argv: {--a: 1}}",
        "models/m.yaml": "- argv: {--a: 2}",
        "pairs/simulated-m.yaml": "- argv: {--a: 3}",
        "compat/simulated.yaml": "- argv: {--a: 4}",
    }
    found = recipes_of(texts)
    assert resolve(FIXED, found).argv == ("x", "--a", "3")
    assert resolve(FIXED, dataclasses.replace(found, compat=True)).argv == ("x", "--a", "4")


def test_an_explanation_has_the_value_the_rule_and_the_numbers_put_in() -> None:
    layers = {
        "engines__simulated": "- {command: [x], argv: {--n: '{2 * conc} of {port}', --t: '{tp}'}}",
        "site": "- {when: tp == 2, argv: {--t: {a: '{max(tp, seqs)}'}}}",
    }
    found = {".".join(e.target): e for e in explain(FIXED, recipes(**layers))}
    assert found["argv.--n"].value == "12 of {port}"
    assert found["argv.--n"].filled == "{2 * 6} of {port}"
    assert found["argv.--t.a"].value == "6"
    assert found["argv.--t.a"].filled == "{max(2, 6)}"
    assert found["argv.--t.a"].origin.when == "tp == 2"
    assert found["let.seqs"].value == "6"
    assert "argv.--t" not in found
