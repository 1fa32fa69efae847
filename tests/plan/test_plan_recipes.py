"""Layers: how they are found, read and checked, and what their rules resolve to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from examples import POINT
from inferometer.core import (
    AgenticCoding,
    ClientSettings,
    LaunchPlan,
    Origin,
    Parallelism,
    Point,
    RouterPlan,
    WorkloadSettings,
)
from inferometer.errors import InputError, Problem
from inferometer.plan import (
    Recipes,
    explain,
    list_files,
    load_recipes,
    read_file,
    recipe_roots,
    resolve,
)
from inferometer.plan.names import POINT_NAMES, point_names
from inferometer.plan.settings import Client, Workload

FIXED = dataclasses.replace(POINT, framework="simulated", runner="sim-h200")
AGENTIC = dataclasses.replace(FIXED, scenario=AgenticCoding(), max_model_len=None)
DEFAULTS = "inferometer/plan/recipes/defaults.yaml"
SESSIONS = "- workload: {sessions: synthetic:x}"


def recipes(**layers: str) -> Recipes:
    """The package's recipes and layers beside the config: `engines__x` is engines/x.yaml."""
    named = {name.replace("__", "/") + ".yaml": text for name, text in layers.items()}
    return recipes_of(named)


def recipes_of(texts: Mapping[str, str]) -> Recipes:
    def read(path: str) -> bytes:
        return texts[path.removeprefix("conf/recipes/")].encode()

    return load_recipes(read, ["conf/recipes"], lambda _root: list(texts))


def refusal(point: Point, **layers: str) -> tuple[Problem, ...]:
    with pytest.raises(InputError) as caught:
        resolve(point, recipes(**layers))
    return caught.value.problems


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


@pytest.mark.parametrize(
    ("text", "line", "key", "message"),
    [
        ("- argvs: {}", 1, "[0].argvs", "unknown field 'argvs'; did you mean 'argv'?"),
        ("- 3", 1, "[0]", "expected a mapping, got 3"),
        ("- when: true", 1, "[0].when", "expected text, got true"),
        ("- image: x\n  when: cnc > 1", 2, "[0].when", "unknown name 'cnc'; did you mean 'conc'?"),
        ("- argv:\n    --a: '{conc'", 2, "[0].argv.--a", "a single { in '{conc'"),
        ("- argv: {--a: '{conc ** 2}'}", 1, "[0].argv.--a", "not part of the expression language"),
        ("- argv: {--a: [[1]]}", 1, "[0].argv.--a", "expected a single value, a list of single"),
        ("- argv: {--a: {b: [{c: 1}]}}", 1, "[0].argv.--a", "expected a single value, a list"),
        ("- argv: {--a: {b: '{cnc}'}}", 1, "[0].argv.--a.b", "unknown name 'cnc'; did you mean"),
        ("- let: {seq: 1}", 1, "[0].let.seq", "unknown let setting 'seq'; did you mean 'seqs'?"),
        ("- argv: {a: 1}", 1, "[0].argv.a", "expected a flag such as --a, got 'a'"),
        ("- argv:", 1, "[0].argv", "expected a mapping, got nothing"),
        ("- env: {A: true}", 1, "[0].env.A", "expected text, a number or null"),
        ('- env: {"A=B": 1}', 1, "[0].env.A=B", "expected the name of a variable, without =, got"),
        ('- env: {"": 1}', 1, "[0].env.", "expected the name of a variable, without =, got ''"),
        ('- env: {A: "x\\0"}', 1, "[0].env.A", "expected text without a NUL character"),
        ('- argv: {--a: "x\\0"}', 1, "[0].argv.--a", "expected text without a NUL character"),
        ('- command: ["x\\0"]', 1, "[0].command[0]", "expected text without a NUL character"),
        ('- image: "x\\0"', 1, "[0].image", "expected text without a NUL character"),
        ("- command: x", 1, "[0].command", "expected a list, got the text 'x'"),
        ("- router: {name: r}", 1, "[0].router.version", "is required and missing"),
        ("- client: {grace: 1}", 1, "[0].client.grace", "unknown client setting 'grace'; did you"),
        ("- workload: {x: 1}", 1, "[0].workload.x", "unknown workload setting 'x'; known: kind,"),
        ("- command: [a, '{nope}']", 1, "[0].command", "unknown name 'nope'"),
        ("- image: a\n  image: b", 2, "[0].image", "given twice, first in line 1"),
        ("a: b", 1, None, "expected a list at the top, got a mapping"),
    ],
)
def test_a_faulty_layer_is_refused_before_there_is_a_point(
    text: str, line: int, key: str | None, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        recipes(site=text)
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.key) == ("conf/recipes/site.yaml", line, key)
    assert problem.message.startswith(message)


def test_all_faults_of_all_layers_come_at_once() -> None:
    with pytest.raises(InputError) as caught:
        recipes_of({"a.yaml": "- x: 1\n- y: 1", "engine/b.yaml": "", "c.yml": "", "README.md": ""})
    assert [(p.file, p.line) for p in caught.value.problems] == [
        ("conf/recipes/a.yaml", 1),
        ("conf/recipes/a.yaml", 2),
        ("conf/recipes/c.yml", 1),
        ("conf/recipes/engine/b.yaml", None),
    ]
    assert "engines, models, hardware" in caught.value.problems[3].message


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("- client: {grace_s: -1}", "client.grace_s", "expected a number of seconds, 0 or more"),
        ("- client: {grace_s: ten}", "client.grace_s", "expected a number of seconds, 0 or more"),
        ("- client: {ignore_eos: 1}", "client.ignore_eos", "expected true or false, got 1"),
        ("- client: {endpoint: chats}", "client.endpoint", "expected one of chat, completions"),
        ("- client: {temperature: .nan}", "client.temperature", "expected a number of 0 or more"),
        (
            "- workload: {requests: 1.5}",
            "workload.requests",
            "expected a positive integer, got 1.5",
        ),
        (
            "- workload: {requests: null}",
            "workload.duration_s",
            "set one of duration_s and requests",
        ),
        (
            "- workload: {requests: 2_147_483_648}",
            "workload.requests",
            "expected an integer of at most 2147483647, got 2147483648",
        ),
        (
            "- workload: {seed: 9_223_372_036_854_775_808}",
            "workload.seed",
            "expected an integer of at most 9223372036854775807, got 9223372036854775808",
        ),
        (
            "- workload: {replay_rules: agentx1}",
            "workload.replay_rules",
            "expected one of none, agentx-1, got the text 'agentx1'; did you mean 'agentx-1'?",
        ),
        (
            "- client: {affinity_header: 'X-Id: 1'}",
            "client.affinity_header",
            "expected an HTTP header name, got the text 'X-Id: 1'",
        ),
        ("- workload: {length_ratio: 0}", "workload.length_ratio", "expected a number above 0"),
        (
            "- workload: {start_min_share: 1}",
            "workload.start_min_share",
            "is above start_max_share",
        ),
        ("- workload: {isl: null}", "workload.isl", "a fixed workload needs isl and osl"),
    ],
)
def test_a_wrong_setting_cites_the_rule_that_set_it(text: str, key: str, message: str) -> None:
    (problem,) = refusal(FIXED, site=text)
    assert problem.key == key
    assert problem.message.startswith(message)
    assert problem.message.endswith("(point key_1024_64_tp2_c6)")
    if "requests: null" in text:
        assert problem.file == DEFAULTS
    else:
        assert (problem.file, problem.line) == ("conf/recipes/site.yaml", 1)


def test_faults_that_need_a_point_come_at_once_with_their_rules() -> None:
    site = (
        "- argv:\n    --a: '{conc / (tp - 2)}'\n    --b: '{isl + 1}'\n"
        "- when: conc\n  image: x\n"
        "- when: osl > 1\n  image: x\n"
        "- image: null\n"
    )
    found = refusal(AGENTIC, site=site, other=SESSIONS)
    assert [(p.line, p.key, p.message.split(" (")[0]) for p in found] == [
        (2, "argv.--a", "division by zero"),
        (3, "argv.--b", "'isl' has no value at this point"),
        (4, "when", "expected a condition, got 6"),
        (6, "when", "'osl' has no value at this point"),
        (None, "image", "no recipe rule sets it"),
    ]


def test_a_setting_that_no_rule_sets_is_named() -> None:
    full = recipes()
    bare = dataclasses.replace(full.defaults, rules=full.defaults.rules[1:])
    with pytest.raises(InputError) as caught:
        resolve(FIXED, dataclasses.replace(full, defaults=bare))
    found = {problem.key: problem.message for problem in caught.value.problems}
    assert {"image", "client.grace_s", "workload.kind", "workload.warmup_grace_s"} <= set(found)
    assert found["client.grace_s"].startswith("no recipe rule sets it")


def test_the_settings_models_mirror_the_value_types() -> None:
    assert list(Client.model_fields) == [f.name for f in dataclasses.fields(ClientSettings)]
    assert list(Workload.model_fields) == [f.name for f in dataclasses.fields(WorkloadSettings)]


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


def test_a_rule_refuses_the_points_that_it_holds_for() -> None:
    rule = '- when: tp > 1\n  refuse: "one GPU, not {tp}"\n'
    (problem,) = refusal(FIXED, site=rule)
    assert problem.message == f"one GPU, not 2 (point {FIXED.id})"
    assert (problem.file, problem.line) == ("conf/recipes/site.yaml", 2)
    alone = dataclasses.replace(FIXED, parallelism=Parallelism(1, 1, 1, 1, 1, False))
    assert "refuse" not in resolve(alone, recipes(site=rule)).origins


def test_a_refusal_has_a_text() -> None:
    with pytest.raises(InputError) as caught:
        recipes(site="- refuse: true\n")
    assert "refuse" in str(caught.value)
