"""The closed language of recipe conditions and values: no code, no I/O, bounded in every way.

Numbers, texts, true and false, the names of a point, + - * / // %, comparisons, and/or/not,
`a if c else b`, and the functions below, some of which make lists. Nothing converts:
text is not compared with a number and a number is not a condition, so that a typo is an error and
never a silently false condition. Every fault, whatever the source, is an InputError without a
place; the caller knows the place.
"""

from __future__ import annotations

import ast
import copy
import math
import operator
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, NoReturn

from inferometer.catalog import Facts
from inferometer.errors import InputError, nearest
from inferometer.plan import derivations
from inferometer.plan.derivations import MAX_LIST, MAX_TEXT

Value = bool | int | float | str | tuple[int, ...] | tuple[str, ...]
Names = Mapping[str, Value | Facts | None]
"""What an expression may name. None: known, and without a value at this point. Under FACTS, which
no expression can name, the tables that functions look into; without it those of the package.
"""
FACTS = "the catalog"
LOOKING = frozenset({"acceptance_length"})
"""Functions that look into a table."""

MAX_LENGTH = 500
MAX_DEPTH = 20
MAX_INT = 2**63


def evaluate(source: str, names: Names) -> Value:
    """The value of an expression. `and`, `or` and `if` do not look at the side not taken."""
    used, looks = _uses(source)
    try:
        given = [names[name] for name in used]
    except KeyError:
        check(source, names)
        raise
    return _evaluated(source, names.get(FACTS) if looks else None, *given)


@lru_cache(maxsize=65_536, typed=True)
def _evaluated(source: str, facts: Value | Facts | None, *given: Value | Facts | None) -> Value:
    """The value with what its names stand for, in their order. Most points agree on the few names
    that a condition has, so few conditions are worked out twice. 1, 1.0 and true are three.
    """
    values = dict(zip(names_in(source), given, strict=True))
    return _value(_parse(source).body, {**values, FACTS: facts})


@lru_cache(maxsize=4096)
def _uses(source: str) -> tuple[tuple[str, ...], bool]:
    """The names that an expression uses, and whether it looks into a table."""
    return names_in(source), any(True for _ in _lookups(source))


def _lookups(source: str) -> Iterator[ast.Call]:
    for node in ast.walk(_parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) in LOOKING:
            yield node


def lookups_in(source: str) -> tuple[str, ...]:
    """The parts of an expression that look into a table of the catalog, as expressions."""
    return tuple(dict.fromkeys(ast.unparse(node) for node in _lookups(source)))


def check(source: str, known: Collection[str]) -> None:
    """Refuse what is not of the language, and names that are neither known nor functions."""
    for name in names_in(source):
        if name not in known:
            raise InputError(f"unknown name {name!r}{nearest(name, known)}")


@lru_cache(maxsize=4096)
def names_in(source: str) -> tuple[str, ...]:
    """The names that an expression uses, functions left out, in the order written."""
    nodes = (node for node in ast.walk(_parse(source)) if isinstance(node, ast.Name))
    return tuple(dict.fromkeys(node.id for node in nodes if node.id not in FUNCTIONS))


def filled_in(source: str, names: Names) -> str:
    """The expression with the values of its names in their place: `2 * conc` as `2 * 8`."""
    return ast.unparse(_FillIn(names).visit(copy.deepcopy(_parse(source))))


class _FillIn(ast.NodeTransformer):
    def __init__(self, names: Names) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """The value in place of a name; a function's name stays."""
        value = self._names.get(node.id)
        known = None if isinstance(value, tuple | Facts) else value
        return node if known is None else ast.Constant(known)


@lru_cache(maxsize=4096)
def _parse(source: str) -> ast.Expression:
    if len(source) > MAX_LENGTH:
        raise InputError(f"an expression has at most {MAX_LENGTH} characters, got {len(source)}")
    try:
        # Python warns of some texts that it reads (`1if x else 2`); the language has none of them.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = ast.parse(source.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"not an expression: {source!r}") from error
    _admit(tree.body, 1)
    return tree


def _admit(node: ast.AST, depth: int) -> None:
    """Refuse every construct but those of the language."""
    if depth > MAX_DEPTH:
        raise InputError(f"an expression nests at most {MAX_DEPTH} deep")
    if type(node) not in _EVALUATE:
        _refuse(node)
    if isinstance(node, ast.Constant):
        _bounded(node.value)
    if isinstance(node, ast.Call):
        _admit_call(node)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.operator | ast.unaryop | ast.cmpop):
            if type(child) not in _OPERATORS:
                _refuse(child)
        elif not isinstance(child, ast.expr_context | ast.boolop):
            _admit(child, depth + 1)


def _admit_call(node: ast.Call) -> None:
    if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
        name = getattr(node.func, "id", "that")
        hint = nearest(name, FUNCTIONS) or f"; known: {', '.join(sorted(FUNCTIONS))}"
        raise InputError(f"no function {name!r}{hint}")
    if node.keywords:
        raise InputError(f"{node.func.id} takes no named arguments")


def _refuse(node: ast.AST) -> NoReturn:
    raise InputError(f"not part of the expression language: {type(node).__name__.lower()}")


def _value(node: ast.AST, names: Names) -> Value:
    return _bounded(_EVALUATE[type(node)](node, names))


def _bounded(value: object) -> Value:
    match value:
        case bool():
            return value
        case str() if len(value) <= MAX_TEXT:
            return value
        case str():
            raise InputError(f"a text has at most {MAX_TEXT} characters")
        case int() if abs(value) <= MAX_INT:
            return value
        case float() if math.isfinite(value):
            return value
        case tuple() if len(value) <= MAX_LIST and _alike(value):
            return value
        case int() | float():
            raise InputError("a number is too large (integers reach 2**63)")
        case _:
            raise InputError(f"not part of the expression language: {value!r}")


def _alike(items: tuple[object, ...]) -> bool:
    """Integers only, or texts only."""
    kinds = {type(item) for item in items}
    return kinds <= {int} or kinds <= {str}


def _name(node: ast.Name, names: Names) -> Value:
    if node.id not in names:
        raise InputError(f"{node.id!r} is a function: give it arguments")
    value = names[node.id]
    if value is None or isinstance(value, Facts):
        raise InputError(f"{node.id!r} has no value at this point")
    return value


def _arithmetic(node: ast.BinOp, names: Names) -> Value:
    left, right = _number(node.left, names), _number(node.right, names)
    try:
        return _as_value(_OPERATORS[type(node.op)](left, right))
    except ZeroDivisionError as error:
        raise InputError("division by zero") from error
    except OverflowError as error:
        raise InputError("a number is too large") from error


def _unary(node: ast.UnaryOp, names: Names) -> Value:
    if isinstance(node.op, ast.Not):
        return not _condition(node.operand, names)
    return _as_value(_OPERATORS[type(node.op)](_number(node.operand, names)))


def _logic(node: ast.BoolOp, names: Names) -> Value:
    stop = isinstance(node.op, ast.Or)
    for operand in node.values:
        if _condition(operand, names) is stop:
            return stop
    return not stop


def _comparison(node: ast.Compare, names: Names) -> Value:
    left = _value(node.left, names)
    for op, operand in zip(node.ops, node.comparators, strict=True):
        right = _value(operand, names)
        ordered = not isinstance(op, ast.Eq | ast.NotEq)
        if _kind(left) != _kind(right) or (ordered and _kind(left) != "a number"):
            raise InputError(f"cannot compare {left!r} with {right!r}")
        if not _OPERATORS[type(op)](left, right):
            return False
        left = right
    return True


def _choice(node: ast.IfExp, names: Names) -> Value:
    return _value(node.body if _condition(node.test, names) else node.orelse, names)


def _call(node: ast.Call, names: Names) -> Value:
    assert isinstance(node.func, ast.Name)
    function, least, kinds = FUNCTIONS[node.func.id]
    if not least <= len(node.args) <= len(kinds):
        raise InputError(f"{node.func.id} does not take {len(node.args)} arguments")
    given = zip(node.args, kinds, strict=False)
    arguments = [_text(n, names) if kind == "t" else _number(n, names) for n, kind in given]
    facts = names.get(FACTS)
    tables = {"table": facts.acceptance} if isinstance(facts, Facts) else {}
    try:
        return _as_value(function(*arguments, **(tables if node.func.id in LOOKING else {})))
    except OverflowError as error:
        raise InputError("a number is too large") from error


def _number(node: ast.AST, names: Names) -> int | float:
    value = _value(node, names)
    if isinstance(value, bool | str | tuple):
        raise InputError(f"expected a number, got {value!r}")
    return value


def _text(node: ast.AST, names: Names) -> str:
    value = _value(node, names)
    if not isinstance(value, str):
        raise InputError(f"expected a text, got {value!r}")
    return value


def _condition(node: ast.AST, names: Names) -> bool:
    value = _value(node, names)
    if not isinstance(value, bool):
        raise InputError(f"expected a condition, got {value!r}")
    return value


def _kind(value: Value) -> str:
    if isinstance(value, bool):
        return "a condition"
    if isinstance(value, tuple):
        return "a list"
    return "text" if isinstance(value, str) else "a number"


def _as_value(value: Any) -> Value:
    """The result of an operator or function, which the type system cannot see."""
    return _bounded(value)


def _clamp(value: float, low: float, high: float) -> float:
    if low > high:
        raise InputError(f"clamp needs low <= high, got {low} and {high}")
    return min(max(value, low), high)


def _round(value: float, digits: float = 0) -> float:
    if type(digits) is not int or not 0 <= digits <= 15:
        raise InputError(f"round takes 0 to 15 digits, got {digits}")
    return round(value, digits) if digits else round(value)


_Function = tuple[Callable[..., Any], int, str]

FUNCTIONS: Mapping[str, _Function] = {
    "min": (lambda *numbers: min(numbers), 1, "n" * 16),
    "max": (lambda *numbers: max(numbers), 1, "n" * 16),
    "ceil": (math.ceil, 1, "n"),
    "floor": (math.floor, 1, "n"),
    "round": (_round, 1, "nn"),
    "clamp": (_clamp, 3, "nnn"),
    "next_pow2": (derivations.next_pow2, 1, "n"),
    "sequence_cap": (derivations.sequence_cap, 2, "nn"),
    "rank_sequences": (derivations.rank_sequences, 2, "nn"),
    "verify_tokens": (derivations.verify_tokens, 2, "nn"),
    "graph_cap": (derivations.graph_cap, 3, "nnn"),
    "graph_gib": (derivations.graph_gib, 1, "n"),
    "steps": (derivations.steps, 3, "nnn"),
    "pow2_steps": (derivations.pow2_steps, 2, "nn"),
    "prefill_step": (derivations.prefill_step, 5, "nnnnn"),
    "context_length": (derivations.context_length, 4, "nnnn"),
    "rank_bytes": (derivations.rank_bytes, 2, "nn"),
    "pool_gb": (derivations.pool_gb, 5, "nnnnn"),
    "segment_gib": (derivations.segment_gib, 4, "nnnn"),
    "numbered": (derivations.numbered, 3, "tnn"),
    "acceptance_length": (derivations.acceptance_length, 3, "ttnt"),
    "each": (derivations.each, 2, "tt"),
    "place": (derivations.place, 2, "tt"),
}
"""Name to function, the fewest arguments, and the kind of each: n a number, t a text. `round` takes
a half to the even side.
"""

_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

_EVALUATE: Mapping[type[ast.AST], Callable[[Any, Names], Any]] = {
    ast.Constant: lambda node, _names: node.value,
    ast.Name: _name,
    ast.BinOp: _arithmetic,
    ast.UnaryOp: _unary,
    ast.BoolOp: _logic,
    ast.Compare: _comparison,
    ast.IfExp: _choice,
    ast.Call: _call,
}
