"""The language of expressions under random sources, and proof that the search finds a leak.

A source is either refused as an InputError or gives a bounded value, and then it held nothing that
is not of the language. Four leaky variants, one for each thing that must not happen, are caught.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from inferometer.errors import InputError
from inferometer.plan import expressions
from inferometer.plan.derivations import MAX_LIST
from inferometer.plan.expressions import FUNCTIONS, MAX_DEPTH, MAX_INT, Names, evaluate

NAMES: Names = {"conc": 6, "tp": 8, "share": 0.25, "scenario": "fixed", "dp_attn": False, "x": None}
LONGEST_TEXT = 8192
"""Above the longest text that an expression can make: 64 addresses of at most 84 characters."""
FOREIGN = (
    *(ast.Attribute, ast.Subscript, ast.Lambda, ast.NamedExpr, ast.JoinedStr, ast.Starred),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Await, ast.Yield),
    *(ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Pow, ast.LShift, ast.MatMult, ast.BitOr),
    *(ast.In, ast.Is, ast.Invert),
)

numbers = st.one_of(
    st.integers(-3, 70),
    st.sampled_from([2**31, 2**62, MAX_INT, -MAX_INT, MAX_INT + 1, 10**40]),
    st.floats(allow_nan=False),
).map(str)
texts = st.one_of(st.sampled_from(["'a'", "''", "'mtp'", "'on'", "'dsv4'"]), st.text().map(repr))
leaves = st.one_of(numbers, texts, st.sampled_from([*NAMES, *FUNCTIONS, "True", "None", "self"]))
ARITHMETIC = ["+", "-", "*", "/", "//", "%", "**", "<<", "@", "|"]
BINARY = [*ARITHMETIC, "==", "!=", "<", "<=", ">", ">=", "in", "is", "and", "or", ":="]
DOTTED = ["__class__", "real", "format", "__mro__", "bit_length()", "__init__.__globals__"]


def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions of the language and of its neighbourhood, one level above `inner`."""
    return st.one_of(
        st.tuples(inner, st.sampled_from(BINARY), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(st.sampled_from(["-", "+", "not ", "~"]), inner).map(lambda p: f"({p[0]}{p[1]})"),
        st.tuples(inner, inner, inner).map(lambda p: f"({p[0]} if {p[1]} else {p[2]})"),
        st.tuples(
            st.sampled_from([*FUNCTIONS, "open", "getattr"]), st.lists(inner, max_size=5)
        ).map(lambda p: f"{p[0]}({', '.join(p[1])})"),
        st.tuples(inner, st.sampled_from(DOTTED)).map(lambda p: f"({p[0]}).{p[1]}"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]})[{p[1]}]"),
        st.sampled_from(
            ["[{}]", "({},)", "(lambda: {})()", "f'{{{}}}'", "[a for a in {}]"]
        ).flatmap(lambda form: inner.map(form.format)),
    )


sources = st.recursive(leaves, compound, max_leaves=12)
sums = st.recursive(numbers, compound, max_leaves=3)
"""Small ones of numbers alone, where most operators have what they need."""


def fault(source: str, evaluator: Callable[[str, Names], Any] = evaluate) -> str | None:
    """What is wrong with how `source` was taken; None where nothing is."""
    try:
        value = evaluator(source, NAMES)
    except InputError:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return _unbounded(value) or next(_foreign(source), None)


def _unbounded(value: Any) -> str | None:
    match value:
        case bool():
            return None
        case int():
            return None if abs(value) <= MAX_INT else "an integer above the bound"
        case float():
            return None if math.isfinite(value) else "a float that is no number"
        case str():
            return None if len(value) <= LONGEST_TEXT else "a text above the bound"
        case tuple():
            whole = all(type(item) is int and abs(item) <= MAX_INT for item in value)
            return None if whole and len(value) <= MAX_LIST else "a list above the bound"
    return f"a value of type {type(value).__name__}"


def _foreign(source: str) -> Iterator[str]:
    """What an evaluated source holds that is not of the language."""
    for node in ast.walk(ast.parse(source.strip(), mode="eval")):
        if isinstance(node, FOREIGN):
            yield f"evaluated a {type(node).__name__}"


@settings(max_examples=300)
@given(sources)
def test_any_expression_is_refused_or_gives_a_bounded_value(source: str) -> None:
    assert fault(source) is None


@given(st.text(st.characters(), max_size=80))
def test_any_text_is(source: str) -> None:
    assert fault(source) is None


@given(st.integers(1, 2000), st.sampled_from(["({})", "-{}", "not {}", "min({})", "{} + 1"]))
def test_any_depth_is(depth: int, form: str) -> None:
    source = "1"
    for _ in range(min(depth, 600)):
        source = form.format(source)
    assert fault(source) is None
    if form == "-{}" and depth >= MAX_DEPTH:
        with pytest.raises(InputError):
            evaluate(source, NAMES)


@pytest.mark.parametrize(
    "source",
    [
        "'a' * 9223372036854775807",
        "9 ** 9 ** 9",
        "().__class__.__mro__",
        "numbered(numbered('tcp://a:', 1, 64), 1, 64)",
        "steps(0, 9223372036854775807, 1)",
        "1e308 * 1e308",
        "\ud800",
        "'\ud800'",
        "１ + １",
        "conc\u200b",
        "\x00",
        "1 if 1 else",
    ],
)
def test_what_must_not_be_evaluated(source: str) -> None:
    assert fault(source) is None


def found(evaluator: Callable[[str, Names], Any], among: st.SearchStrategy[str] = sources) -> str:
    """A source at fault, not made simple. NoSuchExample where the search finds none."""
    # A few hundred are enough, and which those are changes with the tree: that none of so many
    # finds it must be no matter of chance.
    quiet = settings(
        max_examples=40_000,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    return find(among, lambda source: fault(source, evaluator) is not None, settings=quiet)


@pytest.fixture
def _fresh() -> Iterator[None]:
    """No parsed source of another variant is kept."""
    expressions._parse.cache_clear()
    yield
    expressions._parse.cache_clear()


@pytest.mark.usefixtures("_fresh")
def test_the_search_finds_an_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    def attribute(node: ast.Attribute, names: Names) -> Any:
        return getattr(expressions._value(node.value, names), node.attr, 0)

    monkeypatch.setitem(expressions._EVALUATE, ast.Attribute, attribute)
    assert "." in found(evaluate)


@pytest.mark.usefixtures("_fresh")
def test_the_search_finds_a_power(monkeypatch: pytest.MonkeyPatch) -> None:
    def power(base: float, exponent: float) -> Any:
        return base ** min(exponent, 8)

    monkeypatch.setitem(expressions._OPERATORS, ast.Pow, power)
    assert "**" in found(evaluate, sums)


@pytest.mark.usefixtures("_fresh")
def test_the_search_finds_a_repeated_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "_number", expressions._value)
    source = found(evaluate)
    assert fault(source) is not None


@pytest.mark.usefixtures("_fresh")
def test_the_search_finds_a_missing_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "_bounded", lambda value: value)
    assert fault(found(evaluate)) is not None


def test_the_search_finds_the_host_language() -> None:
    def host(source: str, names: Names) -> Any:
        if "*" in source or "<<" in source:
            return 0  # what grows without a bound would not come back
        return eval(source, {"__builtins__": {}}, dict(names))

    source = found(host)
    assert fault(source, host) is not None
    assert fault(source) is None
