"""Strict field types for what people write, and their faults in plain words.

Every model is frozen, refuses unknown fields, and never converts: "8" is no number, 1 is no bool.
`validate` turns a model's findings into Problems with file, line, dotted key, what was expected
and, for a name that does not exist, the nearest that does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, NamedTuple, Self, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from inferometer.errors import Problem, nearest
from inferometer.plan.source import DataPath, Document

M = TypeVar("M", bound="Strict")
T = TypeVar("T")


class Fault(NamedTuple):
    """A broken rule between fields: where, below the model that states the rule, and what."""

    path: DataPath
    message: str


class Strict(BaseModel):
    """Frozen, exact, closed. Field names are kebab-case in files (`dp-attn` for `dp_attn`)."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        alias_generator=lambda name: name.replace("_", "-"),
        # `model` and `model-prefix` are the field's own words.
        protected_namespaces=(),
        # Most commands meet few of the models: each is built when it is first used.
        defer_build=True,
    )

    def faults(self) -> Iterator[Fault]:
        """Rules between fields, of this class alone: those of its bases are asked too. Where some
        fields are wrong by themselves, the rules up to the first that reads one of those hold.
        """
        yield from ()

    @model_validator(mode="after")
    def _no_faults(self) -> Self:
        if found := tuple(fault for rules in _rules(type(self)) for fault in rules(self)):
            raise PydanticCustomError("faults", "rules between fields", {"faults": found})
        return self


@cache
def _rules(model: type[Strict]) -> list[Callable[[Strict], Iterator[Fault]]]:
    """Those of a model's bases before its own."""
    return [vars(kind)["faults"] for kind in reversed(model.__mro__) if "faults" in vars(kind)]


def expect(what: str, holds: Callable[[Any], bool]) -> BeforeValidator:
    """Refuse what does not hold, saying `expected WHAT, got ...`."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise PydanticCustomError("expected", "{what}", {"what": what})
        return value

    return BeforeValidator(check)


def one_of(*names: str) -> BeforeValidator:
    """Refuse a text that is none of `names`, saying which there are and which is nearest."""

    def check(value: Any) -> Any:
        if value not in names or not isinstance(value, str):
            hint = nearest(value, names) if isinstance(value, str) else ""
            what = f"one of {', '.join(names)}"
            raise PydanticCustomError("expected", "{what}", {"what": what, "hint": hint})
        return value

    return BeforeValidator(check)


def is_number(value: Any) -> bool:
    """A finite number that is no bool."""
    return type(value) is int or (type(value) is float and math.isfinite(value))


def at_most(bound: int) -> BeforeValidator:
    """Refuse an integer above `bound`."""
    return expect(f"an integer of at most {bound}", lambda v: v <= bound)


def at_most_items(most: int) -> BeforeValidator:
    """Refuse a list of more than `most` items, before any of them is looked at."""

    def check(value: Any) -> Any:
        if isinstance(value, list) and len(value) > most:
            context = {"what": f"at most {most} items", "hint": f" of {len(value)}"}
            raise PydanticCustomError("expected", "{what}", context)
        return value

    return BeforeValidator(check)


MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1
MAX_LANES = 65_536
MAX_LADDER = 10_000
MAX_KEY_BYTES = 200
"""Of a config key in UTF-8: it is part of a directory's name, which has at most 255."""

# Of several checks of one value the last is the first to be made.
Text = Annotated[
    str,
    expect("text without a NUL character", lambda v: "\0" not in v),
    expect("text", lambda v: isinstance(v, str) and bool(v.strip())),
]
Flag = Annotated[bool, expect("true or false", lambda v: isinstance(v, bool))]
_POSITIVE = expect("a positive integer", lambda v: type(v) is int and v > 0)
_COUNT = expect("an integer of 0 or more", lambda v: type(v) is int and v >= 0)
PositiveInt = Annotated[int, at_most(MAX_INT32), _POSITIVE]
Lanes = Annotated[int, at_most(MAX_LANES), _POSITIVE]
Count = Annotated[int, at_most(MAX_INT32), _COUNT]
Seed = Annotated[int, at_most(MAX_INT64), _COUNT]
Share = Annotated[
    float, expect("a number above 0, at most 1", lambda v: is_number(v) and 0 < v <= 1)
]
# A list in a file becomes a tuple: the one conversion, since models are frozen.
Items = Annotated[tuple[T, ...], Field(strict=False)]
ItemsOrNull = Annotated[Items[T], BeforeValidator(lambda value: [] if value is None else value)]
# Not min_length: that counts sound items, and so would report a faulty list twice.
SomeItems = Annotated[Items[T], expect("at least one item", lambda v: v != [])]


def key_faults(key: str) -> list[str]:
    """What keeps a text from being a config key, which names directories and stands in messages."""
    found = []
    if not key.isprintable():
        found.append(f"a config key is of printable characters, got {key[:60]!r}")
    if (size := len(key.encode())) > MAX_KEY_BYTES:
        found.append(f"a config key has at most {MAX_KEY_BYTES} bytes, got {size}: {key[:60]!r}...")
    return found


def validate(model: type[M], document: Document, path: DataPath) -> tuple[M | None, list[Problem]]:
    """The value at `path` as a model, or a Problem for every fault found in it."""
    data = document.data
    for part in path:
        data = data[part]
    checked, faults = fit(model, data)
    return checked, [document.problem((*path, *f.path), f.message) for f in faults]


def fit(model: type[M], data: object) -> tuple[M | None, list[Fault]]:
    """The data as a model, or every fault found in it, in plain words."""
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        details = error.errors(include_url=False)
        found = [fault for detail in details for fault in _plain(model, detail)]
        return None, found + _Partial(details).faults(model, data, ())


class _Partial:
    """Rules between fields that pydantic leaves out, since a field of the model or of one below it
    is wrong: asked of models that lack the wrong fields.
    """

    def __init__(self, details: Sequence[ErrorDetails]) -> None:
        self._told = {detail["loc"] for detail in details if detail["type"] == "faults"}
        self._wrong = {detail["loc"] for detail in details} - self._told
        extra = (d["loc"][:-1] for d in details if d["type"] == "extra_forbidden")
        self._misnamed = set(extra)
        below = (
            detail["loc"][:length] for detail in details for length in range(len(detail["loc"]))
        )
        self._above = set(below)

    def faults(self, model: type[Strict], data: object, where: DataPath) -> list[Fault]:
        """Of the model at `where` and of all below it."""
        found: list[Fault] = []
        self._made(model, data, where, found)
        return found

    def _made(
        self, model: type[Strict], data: object, where: DataPath, found: list[Fault]
    ) -> Strict:
        given: Mapping[str, object] = data if isinstance(data, Mapping) else {}
        unsure = where in self._misnamed or where in self._wrong
        values, lacking = {}, []
        for name, field in model.model_fields.items():
            alias = field.alias or name
            below = (*where, alias)
            inner = _inner(field.annotation)
            if alias not in given:
                lacking += [name] if unsure or field.is_required() else []
            elif below in self._wrong or (inner is None and below in self._above):
                lacking.append(name)
            else:
                values[alias] = self._value(inner, given[alias], below, found)
        made = model.model_construct(**values)
        for name in lacking:
            made.__dict__.pop(name, None)
        if where in self._above and where not in self._told:
            found += (Fault((*where, *path), text) for path, text in _asked(made))
        return made

    def _value(
        self, inner: type[Strict] | None, value: Any, where: DataPath, found: list[Fault]
    ) -> Any:
        if inner is not None and isinstance(value, Mapping):
            return self._made(inner, value, where, found)
        if not isinstance(value, list):
            return value
        if inner is None:
            return tuple(value)
        return tuple(self._made(inner, item, (*where, i), found) for i, item in enumerate(value))


def _asked(partial: Strict) -> Iterator[Fault]:
    """What the rules find in a model that lacks some of its fields."""
    for rules in _rules(type(partial)):
        try:
            yield from rules(partial)
        except AttributeError:
            continue  # it needs what is not there


def _plain(model: type[Strict], detail: ErrorDetails) -> Iterator[Fault]:
    """One finding in plain words; a rule between fields may hold several faults."""
    where, context = detail["loc"], detail.get("ctx", {})
    got = describe(detail["input"])
    match detail["type"]:
        case "faults":
            yield from (Fault((*where, *path), message) for path, message in context["faults"])
        case "expected":
            hint = context.get("hint", "")
            yield Fault(where, f"expected {context['what']}, got {got}{hint}")
        case "missing":
            yield Fault(where, "is required and missing")
        case "extra_forbidden":
            known = _names(_model_at(model, where[:-1]))
            hint = nearest(str(where[-1]), known) or f"; known: {', '.join(known)}"
            yield Fault(where, f"unknown field {str(where[-1])!r}{hint}")
        case "model_type" | "dict_type":
            yield Fault(where, f"expected a mapping, got {got}")
        case "tuple_type" | "list_type":
            yield Fault(where, f"expected a list, got {got}")
        case _:
            yield Fault(where, f"{detail['msg']}, got {got}")


def describe(value: object) -> str:
    """A value as a person wrote it, short."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str():
            return f"the text {value[:60]!r}"
        case Mapping():
            return "a mapping"
        case list():
            return "a list" if value else "an empty list"
        case _:
            return _number(value)


def _number(value: object) -> str:
    """Python writes no integer of more than 4,300 digits, and nobody wants to read one."""
    huge = isinstance(value, int) and value.bit_length() > 64
    return "an integer of more than 64 bits" if huge else str(value)


def _names(model: type[Strict]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_at(model: type[Strict], where: DataPath) -> type[Strict]:
    """The model that reads the mapping at `where` below `model`."""
    for part in where:
        found = [f for name, f in model.model_fields.items() if (f.alias or name) == part]
        if found:
            model = _inner(found[0].annotation) or model
    return model


def _inner(annotation: Any) -> type[Strict] | None:
    """The first model inside an annotation such as `dict[str, M]` or `tuple[M, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Strict):
        return annotation
    return next((m for part in get_args(annotation) if (m := _inner(part))), None)
