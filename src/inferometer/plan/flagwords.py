"""Words of a command line against a recorded parser: what the engine would refuse, and what it
takes only by chance. Reads words as that parser does; knows nothing of images, plans or other
versions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from inferometer.catalog import FlagOption, FlagSchema
from inferometer.errors import nearest
from inferometer.plan.templates import is_site_placeholder

Fault = Literal[
    "unknown",
    "ambiguous",
    "abbreviated",
    "type",
    "choice",
    "missing",
    "no-value",
    "replaced",
    "surplus",
    "no-equals",
    "not-json",
]
MILD: frozenset[Fault] = frozenset({"abbreviated", "replaced"})
"""Faults that the engine of this very version takes."""

_NUMBER = re.compile(r"-\d+$|-\d*\.\d+$")
_SIZE = re.compile(r"-?\d+$|\d+[KMGT]$|\d+(\.\d+)?[kmgt]$")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_TRUTHS = frozenset(["true", "false", "1", "0", "yes", "no", "y", "n", "t", "f", "on", "off"])


@dataclass(frozen=True, slots=True)
class WordFault:
    """One thing wrong with a flag as it is written; `flag` empty: with a word that has none."""

    kind: Fault
    flag: str
    message: str
    value: str = ""
    """The value that is no choice."""


def word_faults(words: Sequence[str], schema: FlagSchema) -> tuple[WordFault, ...]:
    """Every fault of the words behind the command, in their order."""
    reader = _Reader(schema, tuple(words))
    reader.read()
    return tuple(reader.faults)


def commanded(argv: Sequence[str], schema: FlagSchema) -> tuple[str, ...] | None:
    """The words behind the command; None where no command of the schema is in the argv. A program
    may be named by its path, and another may start it.
    """
    names = [word if word.startswith("-") else word.rpartition("/")[2] for word in argv]
    for command in schema.commands:
        for start in range(len(argv) - len(command) + 1):
            end = start + len(command)
            if tuple(names[start:end]) == command:
                return tuple(argv[end:])
    return None


def spelled(word: str, schema: FlagSchema) -> str:
    """A long option's name as the parser reads it."""
    if not schema.rules.underscores or not word.startswith("--"):
        return word
    name, dot, key = word.partition(".")
    return f"{name.replace('_', '-')}{dot}{key}"


@dataclass(slots=True)
class _Reader:
    """Walks the words once. `at` is the next word to read."""

    schema: FlagSchema
    words: tuple[str, ...]
    at: int = 0
    free: list[tuple[str, str | None]] = field(default_factory=list)
    """Words without an option, each with the option just before it that takes none."""
    faults: list[WordFault] = field(default_factory=list)
    known: Mapping[str, FlagOption] = field(init=False)

    def __post_init__(self) -> None:
        self.known = self.schema.by_name()

    def read(self) -> None:
        """Read every word, then see whether too many are left."""
        bare = None
        while self.at < len(self.words):
            word = self.words[self.at]
            self.at += 1
            if word == "--":
                self.free += [(rest, None) for rest in self.words[self.at :]]
                break
            if self._is_option(word):
                bare = self._option(word)
            else:
                self.free.append((word, bare))
                bare = None
        most = self.schema.positionals
        for word, flag in self.free[most:] if most is not None else ():
            if flag is None:
                self._add("surplus", "", f"{word!r} belongs to no flag")
            else:
                self._add("no-value", flag, f"takes no value, and {word!r} follows")

    def _is_option(self, word: str) -> bool:
        if not word.startswith("-") or len(word) == 1 or _NUMBER.match(word):
            return False
        return " " not in word.partition("=")[0]

    def _option(self, word: str) -> str | None:
        """Read an option and its values. Gives it back where it takes none."""
        name, value = self._parted(word)
        base = name
        if self.schema.rules.dotted and "." in name:
            base = name.partition(".")[0]
        found = self._found(base, value)
        if found is None:
            self._skip(value)
            return None
        option, value = found
        if option.instead is not None:
            self._add("replaced", base, f"is replaced by {option.instead}")
        if base != name:
            self._dotted(name, option, value)
            return None
        if option.value == "none":
            if value is not None:
                self._add("no-value", base, f"takes no value, got {value!r}")
            return base if value is None else None
        self._values(base, option, value)
        return None

    def _parted(self, word: str) -> tuple[str, str | None]:
        """(name, value) of a word; the value None where the word holds only a name."""
        for short, stands_for in self.schema.rules.attached.items():
            rest = word.removeprefix(short)
            if rest != word and rest and not rest.startswith("."):
                return stands_for, rest.removeprefix("=")
        name, equals, value = word.partition("=")
        if equals and not self.schema.rules.equals:
            self._add("no-equals", name, "takes its value as a word of its own, without =")
        return spelled(name, self.schema), value if equals else None

    def _found(self, name: str, value: str | None) -> tuple[FlagOption, str | None] | None:
        """The option that a name stands for, and its value."""
        if name in self.known:
            return self.known[name], value
        if name.startswith("--"):
            candidates = self._candidates(name) if self.schema.rules.abbreviations else []
        else:
            candidates = self._short_candidates(name, value)
        options = {self.known[candidate].names for candidate in candidates}
        if len(options) > 1:
            listed = ", ".join(sorted(candidates))
            self._add("ambiguous", name, f"is ambiguous: it could be {listed}")
        elif not options:
            self._add("unknown", name, f"is unknown{nearest(name, self.known)}")
        elif candidates[0] == name[:2]:
            return self._stuck(name, value)
        else:
            self._add("abbreviated", name, f"is an abbreviation of {candidates[0]}")
            return self.known[candidates[0]], value
        return None

    def _candidates(self, name: str) -> list[str]:
        return [known for known in self.known if known.startswith(name)]

    def _short_candidates(self, name: str, value: str | None) -> list[str]:
        """Of `-xyz`: `-x` with a value that sticks to it, and what begins with the whole."""
        if not self.schema.rules.equals:
            return []
        longer = self._candidates(name) if value is None else []
        return [short for short in (name[:2],) if short in self.known] + longer

    def _stuck(self, name: str, value: str | None) -> tuple[FlagOption, str | None] | None:
        """The last option of `-abc`, where those before it take no value, and what sticks to it."""
        rest = name[2:] if value is None else f"{name[2:]}={value}"
        option = self.known[name[:2]]
        while option.value == "none" and rest and f"-{rest[0]}" in self.known:
            option, rest = self.known[f"-{rest[0]}"], rest[1:]
        return option, rest or None

    def _skip(self, value: str | None) -> None:
        """Pass over the words that seem to be values of an unknown option."""
        while value is None and self._plain():
            self.at += 1

    def _plain(self) -> bool:
        """Whether the next word can be a value."""
        return self.at < len(self.words) and not self._is_option(self.words[self.at])

    def _values(self, name: str, option: FlagOption, value: str | None) -> None:
        least, most = _bounds(option)
        taken = 0
        if value is not None:
            self._check(name, option, value)
            taken = most = 1
        while taken < most and self.at < len(self.words):
            dashed = self.schema.rules.dashed_values and taken < least
            if not dashed and (self.words[self.at] == "--" or not self._plain()):
                break
            self._check(name, option, self.words[self.at])
            self.at += 1
            taken += 1
        if taken < least:
            wanted = "a value" if least == 1 else f"{least} values"
            self._add("missing", name, f"needs {wanted}")

    def _dotted(self, name: str, option: FlagOption, value: str | None) -> None:
        """A key of a JSON option; the next word is its value, whatever it looks like."""
        if value is None:
            if self.at == len(self.words):
                self._add("missing", name, "needs a value")
            self.at += 1
        if option.value not in ("json", "object", "text") or option.choices:
            self._add("not-json", name, f"sets a key, but {option.names[0]} takes no JSON")

    def _check(self, name: str, option: FlagOption, text: str) -> None:
        """See whether an option takes a text."""
        if text in option.also or _site_values(text):
            return
        wanted = unfit(option, text)
        if wanted is not None:
            self._add("type", name, f"needs {wanted}, got {text!r}")
        elif option.choices and not _chosen(option, text):
            among = ", ".join(option.choices)
            hint = nearest(text, option.choices)
            message = f"does not take {text!r}{hint}; it takes: {among}"
            self.faults.append(WordFault("choice", name, message, text))

    def _add(self, kind: Fault, flag: str, message: str) -> None:
        self.faults.append(WordFault(kind, flag, message))


def unfit(option: FlagOption, text: str) -> str | None:
    """What the option needs, where the text is not that; None where it is."""
    needs = _NEEDS.get(option.value)
    return None if needs is None or needs[0](text) else needs[1]


def _converts(convert: Callable[[str], object], text: str) -> bool:
    try:
        convert(text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_object(text: str) -> bool:
    return text.lstrip()[:1] == "{" and _converts(json.loads, text)


_NEEDS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "int": (partial(_converts, int), "a whole number"),
    "float": (partial(_converts, float), "a number"),
    "size": (
        lambda text: _SIZE.match(text.strip()) is not None,
        "a whole number, or one with k, M",
    ),
    "bool": (lambda text: text.lower() in _TRUTHS, "true or false"),
    "json": (partial(_converts, json.loads), "JSON"),
    "object": (_is_object, "a JSON object"),
}
"""By kind of value: whether a text is one, and what to say where it is not."""


def _chosen(option: FlagOption, text: str) -> bool:
    if text in option.choices:
        return True
    if option.value in ("int", "float"):
        return float(text) in {float(choice) for choice in option.choices}
    return option.loose and _plainly(text) in {_plainly(choice) for choice in option.choices}


def _plainly(text: str) -> str:
    return text.lower().replace("-", "_")


def _site_values(text: str) -> bool:
    """Whether a text holds what only the site knows, so that its type is not known yet."""
    return any(is_site_placeholder(part) for part in _PLACEHOLDER.findall(text))


def _bounds(option: FlagOption) -> tuple[int, int]:
    """Least and greatest number of words that an option takes."""
    many = 1 << 30
    match option.count:
        case int(exactly):
            return exactly, exactly
        case "?":
            return 0, 1
        case "*":
            return 0, many
        case _:
            return 1, many
