"""The closed language: what it computes, what it refuses, and that nothing else ever escapes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.errors import InputError
from inferometer.plan.derivations import MAX_LIST, MAX_TEXT, next_pow2, sequence_cap
from inferometer.plan.expressions import MAX_INT, Value, check, evaluate, filled_in
from inferometer.plan.templates import check_template, render

NAMES: dict[str, Value | None] = {
    "conc": 6,
    "tp": 8,
    "share": 0.25,
    "scenario": "fixed",
    "dp_attn": False,
    "isl": None,
}


STARS = "*" * 20
GROWING = f"place('{STARS}', place('{STARS}', place('{STARS}', place('{STARS}', 'ab'))))"
"""160,000 characters from a hundred."""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("2 * conc", 12),
        ("conc + 1 - 2", 5),
        ("conc / 4", 1.5),
        ("conc // 4", 1),
        ("conc % 4", 2),
        ("-conc", -6),
        ("2 * conc if scenario == 'agentic' else conc", 6),
        ("next_pow2(conc * (1 + 3))", 32),
        ("sequence_cap(conc, 1.5)", 9),
        ("min(conc, 4, tp)", 4),
        ("max(conc, 4)", 6),
        ("ceil(conc * share)", 2),
        ("floor(conc * share)", 1),
        ("round(2.5)", 2),
        ("round(1.99 / 3, 6)", 0.663333),
        ("steps(4, 2 * tp, 4)", (4, 8, 12, 16)),
        ("steps(4, 15, 4)", (4, 8, 12)),
        ("steps(5, 4, 1)", ()),
        ("pow2_steps(1, tp)", (1, 2, 4, 8)),
        ("pow2_steps(65, 512)", (128, 256, 512)),
        ("pow2_steps(65, 100)", ()),
        ("steps(1, 2, 1) == pow2_steps(1, 2)", True),
        ("numbered('tcp://h:', 5555, 2)", "tcp://h:5555,tcp://h:5556"),
        ("place('<*_host>:<*_port+1>', 'decode_0')", "{decode_0_host}:{decode_0_port+1}"),
        (
            "each('-d http://<*_host>', 'a_0,b_1')",
            ("-d", "http://{a_0_host}", "-d", "http://{b_1_host}"),
        ),
        ("each('-d *', '')", ()),
        ("acceptance_length('dsv4', 'mtp', 3)", 2.49),
        ("clamp(conc, 1, 4)", 4),
        ("clamp(conc, 8, 16)", 8),
        ("1 <= conc < 8", True),
        ("1 < 1 < isl", False),
        ("scenario == 'fixed' and tp >= 8", True),
        ("scenario == 'agentic' and isl > 1", False),
        ("scenario == 'fixed' or isl > 1", True),
        ("not dp_attn", True),
        ("dp_attn", False),
        ("scenario", "fixed"),
        ("1 == 1.0", True),
        ("  conc  ", 6),
    ],
)
def test_values(source: str, expected: Value) -> None:
    value = evaluate(source, NAMES)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "not an expression: ''"),
        ("conc +", "not an expression: 'conc +'"),
        ("conc; conc", "not an expression"),
        ("conc = 1", "not an expression"),
        ("1if dp_attn else 2", "not an expression"),
        ("cnc * 2", "unknown name 'cnc'; did you mean 'conc'?"),
        ("isl + 1", "'isl' has no value at this point"),
        ("min", "'min' is a function: give it arguments"),
        ("conc / 0", "division by zero"),
        ("conc % 0", "division by zero"),
        ("conc ** 2", "not part of the expression language: pow"),
        ("conc | 2", "not part of the expression language: bitor"),
        ("~conc", "not part of the expression language: invert"),
        ("conc.real", "not part of the expression language: attribute"),
        ("scenario[0]", "not part of the expression language: subscript"),
        ("lambda: 1", "not part of the expression language: lambda"),
        ("[c for c in scenario]", "not part of the expression language: listcomp"),
        ("(1, 2)", "not part of the expression language: tuple"),
        ("conc in (1, 2)", "not part of the expression language: in"),
        ("f'{conc}'", "not part of the expression language: joinedstr"),
        ("(x := 3)", "not part of the expression language: namedexpr"),
        ("None", "not part of the expression language: None"),
        ("b'x'", "not part of the expression language: b'x'"),
        ("1j", "not part of the expression language: 1j"),
        ("min(*conc)", "not part of the expression language: starred"),
        ("open('x')", "no function 'open'; known: acceptance_length, ceil"),
        ("mim(1, 2)", "no function 'mim'; did you mean 'min'?"),
        ("min(a=1)", "min takes no named arguments"),
        ("min()", "min does not take 0 arguments"),
        ("ceil(1, 2)", "ceil does not take 2 arguments"),
        ("conc.bit_length()", "no function 'that'"),
        ("'a' * 9", "expected a number, got 'a'"),
        ("'%s' % conc", "expected a number, got '%s'"),
        ("scenario + 'x'", "expected a number, got 'fixed'"),
        ("dp_attn + 1", "expected a number, got False"),
        ("conc and dp_attn", "expected a condition, got 6"),
        ("1 if conc else 2", "expected a condition, got 6"),
        ("not conc", "expected a condition, got 6"),
        ("tp == '8'", "cannot compare 8 with '8'"),
        ("dp_attn == 0", "cannot compare False with 0"),
        ("scenario < 'x'", "cannot compare 'fixed' with 'x'"),
        ("9223372036854775809", "a number is too large"),
        ("9223372036854775808 * 2", "a number is too large"),
        ("1e999", "a number is too large"),
        ("1e308 * 10", "a number is too large"),
        ("ceil(1e308)", "a number is too large"),
        ("sequence_cap(conc, 1e308)", "a number is too large"),
        ("next_pow2(0)", "next_pow2 takes a positive integer, got 0"),
        ("next_pow2(1.5)", "next_pow2 takes a positive integer, got 1.5"),
        ("sequence_cap(0, 2)", "sequence_cap takes a positive integer conc, got 0"),
        ("sequence_cap(1, 0.5)", "sequence_cap takes a fan_out of 1 or more, got 0.5"),
        ("round(1.5, 16)", "round takes 0 to 15 digits, got 16"),
        ("steps(1, 5000, 1)", "a list has at most 4096 numbers"),
        ("steps(-1, 9223372036854775807, 1)", "a list has at most 4096 numbers"),
        ("steps(1, 2, 0)", "steps takes integers and a step of 1 or more, got (1, 2, 0)"),
        ("pow2_steps(0, 8)", "pow2_steps takes integers and a first of 1 or more, got (0, 8)"),
        ("steps(1, 2, 1) < 3", "cannot compare (1, 2) with 3"),
        ("steps(1, 2, 1) + 1", "expected a number, got (1, 2)"),
        ("numbered('a', 1, 65)", "numbered takes integers and a count of 1 to 64, got (1, 65)"),
        ("numbered(1, 1, 1)", "expected a text, got 1"),
        ("each('-d', 1)", "expected a text, got 1"),
        ("place(each('*', 'a'), 'b')", "expected a text, got ('a',)"),
        ("each('* ' * 2, 'a')", "expected a number, got '* '"),
        (GROWING, "a text has at most 65536 characters"),
        (f"each({GROWING}, 'a')", "a text has at most 65536 characters"),
        (f"each('{'* ' * 80}', numbered('', 0, 64))", "a list has at most 4096 words"),
        (
            "numbered(numbered(numbered('abc', 1, 64), 1, 64), 1, 64)",
            "numbered takes a prefix of at most 64 characters",
        ),
        (
            "acceptance_length('dsv4', 'ngram', 1)",
            "no acceptance curve for 'ngram' drafts of 'dsv4'",
        ),
        ("acceptance_length('dsv4', 'mtp', 9)", "the acceptance curve of dsv4 mtp lacks draft"),
        ("clamp(1, 3, 2)", "clamp needs low <= high, got 3 and 2"),
        ("1" + " + 1" * 200, "an expression has at most 500 characters, got 801"),
        ("-" * 30 + "1", "an expression nests at most 20 deep"),
        ("(" * 240 + "1" + ")" * 240, "not an expression"),
    ],
)
def test_what_is_refused(source: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        evaluate(source, NAMES)
    assert str(caught.value).startswith(message)


def test_an_expression_with_its_values() -> None:
    filled = filled_in("max(conc, isl) if scenario == 'x' else -tp", NAMES)
    assert filled == "max(6, isl) if 'fixed' == 'x' else -8"


def test_a_wrong_name_shows_without_a_point_and_in_the_branch_not_taken() -> None:
    check("isl > 4096 and conc > 2", NAMES)
    with pytest.raises(InputError, match="unknown name 'cnc'"):
        check("dp_attn and cnc > 2", NAMES)


WORDS = """
    conc tp share scenario dp_attn isl nope min max ceil next_pow2 sequence_cap clamp round steps
    pow2_steps numbered each place '*' 'a,b' '<*_host>'
    0 1 2.5 64 1e308 9223372036854775807 'a' '' ( ) , + - * / // % ** < <= ==
    != and or not if else . [ ] lambda : = None True False in is f'{1}' { } @ ~ & | ^ := await yield
"""
ATOMS = st.sampled_from(WORDS.split())


@given(st.lists(ATOMS, max_size=14).map(" ".join))
def test_only_input_errors_escape_from_near_expressions(source: str) -> None:
    assert _within_bounds_or_refused(source)


@given(st.text(max_size=60))
def test_only_input_errors_escape_from_any_text(source: str) -> None:
    assert _within_bounds_or_refused(source)


def _within_bounds_or_refused(source: str) -> bool:
    """Any other exception than ours leaves, and fails the test."""
    try:
        value = evaluate(source, NAMES)
    except InputError:
        return True
    if isinstance(value, tuple):
        integers = all(type(item) is int and abs(item) <= MAX_INT for item in value)
        words = all(type(item) is str for item in value)
        short = sum(len(str(item)) for item in value) <= MAX_TEXT
        return len(value) <= MAX_LIST and (integers or (words and short))
    assert isinstance(value, bool | int | float | str)
    if isinstance(value, float):
        return math.isfinite(value)
    return len(value) <= MAX_TEXT if isinstance(value, str) else abs(value) <= MAX_INT


@given(st.text(alphabet="{}conc *2'port\n", max_size=30))
def test_a_template_that_checks_renders_or_fails_as_an_input_error(template: str) -> None:
    try:
        check_template(template, NAMES)
    except InputError:
        with pytest.raises(InputError):
            render(template, NAMES)
        return
    try:
        value = render(template, NAMES)
    except InputError:
        return
    assert isinstance(value, bool | int | float | str)


numbers = st.integers(-MAX_INT, MAX_INT)


@given(numbers, numbers)
def test_arithmetic_is_exact_or_refused(a: int, b: int) -> None:
    names = {"a": a, "b": b}
    for source, expected in (("a + b", a + b), ("a * b", a * b), ("a - b", a - b)):
        if abs(expected) <= MAX_INT:
            assert evaluate(source, names) == expected
        else:
            with pytest.raises(InputError, match="too large"):
                evaluate(source, names)


@given(st.integers(1, 2**62))
def test_next_pow2_is_the_least_power_not_below(n: int) -> None:
    power = next_pow2(n)
    assert power.bit_count() == 1
    assert n <= power < 2 * n


def test_sequence_cap_by_hand() -> None:
    assert sequence_cap(64, 1) == 64
    assert sequence_cap(5, 1.5) == 8


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{2 * conc}", 12),
        ("{share}", 0.25),
        ("{dp_attn}", False),
        ("{scenario}", "fixed"),
        ("x{conc}", "x6"),
        ("{conc}{tp}", "68"),
        ("{dp_attn}/{share}", "false/0.25"),
        ("plain", "plain"),
        ("", ""),
        ("{port}", "{port}"),
        ("{port+10000}", "{port+10000}"),
        ("{repo}/{workspace}/{pid}", "{repo}/{workspace}/{pid}"),
        ("{steps(1, 3, 1)}", (1, 2, 3)),
        ("n={steps(1, 3, 1)}", "n=[1,2,3]"),
        ("http://{host}:{ port }/{conc}", "http://{host}:{port}/6"),
        ("{model_path}/chat.jinja", "{model_path}/chat.jinja"),
        ('{{"n": {conc}}}', '{"n": 6}'),
        ("{{{conc}}}", "{6}"),
    ],
)
def test_templates(template: str, expected: Value) -> None:
    check_template(template, NAMES)
    value = render(template, NAMES)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize("template", ["{", "}", "{conc", "a}b", "{}", "{a{conc}}", "{cnc}"])
def test_templates_that_are_refused(template: str) -> None:
    with pytest.raises(InputError):
        render(template, NAMES)
    with pytest.raises(InputError):
        check_template(template, NAMES)
