"""Recorded parsers of engines: which options a version takes, and what each of them takes.

One file a version, `data/flags/ENGINE-VERSION.json`, written by `inferometer flags record`. Facts
of the parser alone: no help texts, no defaults. Whether a command line keeps to them: `plan/`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Annotated, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field

from inferometer.catalog.tables import Date, Fact

ValueKind = Literal["none", "text", "int", "float", "size", "json", "object", "bool"]
"""What a value must be. `none`: the option takes no value. `size`: an integer, or one with a unit
(k, K, m, M, g, G, t, T). `object`: a JSON object. `text`: anything."""
Count = Annotated[int, Field(ge=1)] | Literal["?", "*", "+"]
"""Words that an option takes, in argparse's signs."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)


class FlagOption(_Strict):
    """One option under all its names."""

    names: tuple[str, ...] = Field(min_length=1)
    value: ValueKind = "text"
    count: Count = 1
    choices: tuple[str, ...] = ()
    loose: bool = False
    """Choices are compared without regard to case and to `-` or `_`."""
    also: tuple[str, ...] = ()
    """Texts taken beside those of `value`, such as `auto`."""
    instead: str | None = None
    """The option that replaces this one: it still works here, and a later version drops it."""


class FlagRules(_Strict):
    """How a parser reads words; the defaults are those of Python's argparse."""

    abbreviations: bool = True
    """An unambiguous beginning of a long option stands for it."""
    equals: bool = True
    """`--option=value` and `-oVALUE` are read."""
    dashed_values: bool = False
    """A value may begin with a dash; else such a word is an option, unless it is a number."""
    underscores: bool = False
    """`_` in a long option is read as `-`."""
    dotted: bool = False
    """`--option.key value` sets a key of a JSON option, `--option.key+ a,b` appends to a list."""
    attached: Mapping[str, str] = Field(default_factory=dict)
    """A short option whose value may stick to it, and the option that such a value is for."""


class FlagSchema(Fact):
    """The parser of one version of an engine. `date`: when it was recorded."""

    engine: str
    version: str
    released: Date | None = None
    commands: tuple[tuple[str, ...], ...]
    """Words behind which the options stand, such as `vllm serve`."""
    positionals: int | None = 0
    """Words taken without an option, at most; None: any number."""
    rules: FlagRules = FlagRules()
    options: tuple[FlagOption, ...]

    def by_name(self) -> dict[str, FlagOption]:
        """Every option string to its option."""
        return {name: option for option in self.options for name in option.names}

    def order(self) -> tuple[int, ...]:
        """Sorts by age."""
        return version_order(self.version)


_NAMED = re.compile(r"(.+)-([bv]?\d[^-]*)\.json")
"""A file's name: engine and version. An engine may have dashes in its name, a version not."""
_RELEASED = 1 << 30
"""Sorts behind every release candidate."""


def version_order(version: str) -> tuple[int, ...]:
    """A key that sorts version texts by age; `1.2` and `1.2.0` are equal, a release candidate comes
    before its release, a post-release after.
    """
    found = re.match(r"[bv]?(\d+(?:\.\d+)*)(?:[.-]?rc(\d+))?(?:[.-]?(post)(\d*))?", version)
    if found is None:
        return (-1,)
    numbers = [int(part) for part in found[1].split(".")][:4]
    candidate = int(found[2]) if found[2] else _RELEASED
    post = int(found[4] or 0) if found[3] else -1
    return (*numbers, *[0] * (4 - len(numbers)), candidate, post)


@cache
def flag_schemas(engine: str) -> tuple[FlagSchema, ...]:
    """Every version of an engine that is recorded, oldest first; empty where none is."""
    found = [
        FlagSchema.model_validate_json(_folder().joinpath(f"{engine}-{version}.json").read_bytes())
        for recorded, version in recorded_flags()
        if recorded == engine
    ]
    return tuple(found)


def recorded_flags() -> tuple[tuple[str, str], ...]:
    """(engine, version) of everything recorded, by engine, then by age."""
    found = (_NAMED.fullmatch(file.name) for file in _folder().iterdir())
    pairs = [(named[1], named[2]) for named in found if named is not None]
    return tuple(sorted(pairs, key=lambda pair: (pair[0], version_order(pair[1]))))


def written_flags(schema: FlagSchema) -> str:
    """The file of a schema: an option a line, without what is the default."""
    data = schema.model_dump(mode="json", exclude_defaults=True, exclude={"options"})
    head = [f"{_json(name)}:{_json(value)}" for name, value in data.items()]
    options = (
        _json(each.model_dump(mode="json", exclude_defaults=True)) for each in schema.options
    )
    return "{\n" + ",\n".join([*head, '"options":[\n' + ",\n".join(options) + "\n]"]) + "\n}\n"


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def _folder() -> Traversable:
    return resources.files("inferometer.catalog").joinpath("data", "flags")
