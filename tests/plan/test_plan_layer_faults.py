"""What a layer may not say: found as it is read, or at the first point that it holds for."""

from __future__ import annotations

import dataclasses

import pytest
from layer_samples import AGENTIC, DEFAULTS, FIXED, SESSIONS, recipes, recipes_of, refusal

from inferometer.core import (
    ClientSettings,
    Parallelism,
    WorkloadSettings,
)
from inferometer.errors import InputError
from inferometer.plan import resolve
from inferometer.plan.settings import Client, Workload


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
