"""A script for an engine's own interpreter: builds the engine's parser and writes it as JSON.

    PYTHON flagprobe.py OUT NAMES TARGET...

NAMES: distributions that may tell the version, apart by commas. A TARGET is MODULE:FUNCTION; the
first that exists is used. The function is a click command, or takes an argparse parser, or returns
one, or parses its own command line (then it is stopped there).

Imports nothing of ours, so that it runs anywhere. What an option's value must be is found by trying
texts on it: types are functions, and have no names that could be trusted. Starts no engine.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import inspect
import json
import sys
import typing
from pathlib import Path
from typing import Any

ANY_TEXT = "surely-no-such-word"
SPECIALS = ("", "None", "none", "null", "auto", "-1")


class Captured(BaseException):
    """Carries the parser out of a function that was about to parse with it."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


def found_target(targets: list[str]) -> Any:
    """The object that the first importable target names."""
    failed = []
    for target in targets:
        module, _, path = target.partition(":")
        try:
            found: Any = importlib.import_module(module)
            for name in path.split("."):
                found = getattr(found, name)
        except (ImportError, AttributeError) as error:
            failed.append(f"{target}: {type(error).__name__}: {error}")
        else:
            return found
    raise SystemExit("no parser found:\n" + "\n".join(failed))


def parser_of(function: Any) -> argparse.ArgumentParser:
    """The parser that a function fills, returns, or parses with."""
    needed = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if needed:
        given = parser_kind(function, needed[0].name)()
        made = function(given)
        return made if isinstance(made, argparse.ArgumentParser) else given

    def stop(self: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        raise Captured(self)

    argparse.ArgumentParser.parse_args = stop  # type: ignore[assignment,method-assign]
    argparse.ArgumentParser.parse_known_args = stop  # type: ignore[assignment,method-assign]
    sys.argv = sys.argv[:1]
    try:
        made = function()
    except Captured as captured:
        return captured.parser
    if not isinstance(made, argparse.ArgumentParser):
        raise SystemExit(f"{function!r} neither returns a parser nor parses with one")
    return made


def parser_kind(function: Any, name: str) -> type[argparse.ArgumentParser]:
    """The parser class that a parameter asks for."""
    try:
        asked = typing.get_type_hints(function).get(name)
    except NameError:
        asked = None
    if isinstance(asked, type) and issubclass(asked, argparse.ArgumentParser):
        return asked
    return argparse.ArgumentParser


def taken(convert: Any, text: str) -> Any:
    """What a type makes of a text, in a tuple; None where it refuses."""
    try:
        return (convert(text),)
    except BaseException:
        # Whatever a foreign type raises on a text that it does not take is a refusal.
        return None


def kind_of(convert: Any) -> str:
    """What texts a type takes, in the words of the schema."""
    if convert is None or convert is str or isinstance(convert, argparse.FileType):
        return "text"
    takes = {text: taken(convert, text) for text in (ANY_TEXT, "7", "7.5", "7k", "{}", "true")}
    if takes[ANY_TEXT]:
        return "text"
    if takes["{}"]:
        return "json" if takes["7"] else "object"
    if takes["7"]:
        whole = "size" if takes["7k"] else "int"
        return "float" if takes["7.5"] else whole
    return "bool" if takes["true"] else "text"


def specials_of(convert: Any, kind: str) -> list[str]:
    """Texts that a type takes although they are not of its kind."""
    if kind in ("text", "none"):
        return []
    plain = {"-1": ("int", "float", "json", "size"), "null": ("json",)}
    tried = [text for text in SPECIALS if kind not in plain.get(text, ())]
    return [text for text in tried if taken(convert, text)]


def is_loose(convert: Any, choices: list[Any]) -> bool:
    """Whether a choice may be written in capitals or with the other dash."""
    if convert is None:
        return False
    others = {str(choice).upper() for choice in choices}
    others |= {str(choice).replace("_", "-") for choice in choices}
    unlike = [text for text in others if text not in choices]
    return any((taken(convert, text) or (None,))[0] in choices for text in unlike)


def described(action: argparse.Action) -> dict[str, Any]:
    """One argparse option in the words of the schema."""
    entry: dict[str, Any] = {"names": list(action.option_strings)}
    instead = getattr(action, "new_flag", None)
    if isinstance(instead, str):
        entry["instead"] = instead
    if action.nargs == 0:
        return {**entry, "value": "none"}
    choices = list(action.choices or ())
    kind = kind_of(action.type)
    entry["value"] = kind
    if action.nargs is not None:
        entry["count"] = {"A...": "+", "...": "*"}.get(str(action.nargs), action.nargs)
    if choices:
        entry["choices"] = sorted({str(choice) for choice in choices})
        entry["loose"] = is_loose(action.type, choices)
    entry["also"] = specials_of(action.type, kind)
    return entry


def argparse_schema(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Every option, the rules and the number of words without an option."""
    actions = parser._actions
    words = [action.nargs for action in actions if not action.option_strings]
    unbounded = any(isinstance(count, str) and count != "?" for count in words)
    bounded = sum(count if isinstance(count, int) else 1 for count in words)
    return {
        "positionals": None if unbounded else bounded,
        "rules": {
            "abbreviations": parser.allow_abbrev,
            **flexible_rules(parser),
        },
        "options": [described(action) for action in actions if action.option_strings],
    }


def flexible_rules(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Rules that a parser class adds to argparse's, by trying them on a small parser of it."""
    kind = type(parser)
    if kind is argparse.ArgumentParser:
        return {}
    small = kind()
    small.add_argument("--one-two", type=json.loads)
    small.add_argument("--optimization-level", type=str)
    rules: dict[str, Any] = {
        "underscores": taken(small.parse_args, ["--one_two", "1"]) is not None,  # type: ignore[arg-type]
        "dotted": taken(small.parse_args, ["--one-two.a.b", "1"]) is not None,  # type: ignore[arg-type]
    }
    if taken(small.parse_args, ["-O3"]) is not None:  # type: ignore[arg-type]
        rules["attached"] = {"-O": "--optimization-level"}
    return rules


def click_schema(command: Any) -> dict[str, Any]:
    """The same of a click command; of a group, those of its command `serve` or its only one."""
    while hasattr(command, "commands"):
        below = command.commands
        command = below["serve"] if "serve" in below else next(iter(below.values()))
    arguments = [each.nargs for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    return {
        "positionals": None if any(n < 0 for n in arguments) else sum(arguments),
        "rules": {"abbreviations": False, "dashed_values": True},
        "options": [entry for each in options for entry in described_click(each)]
        + [{"names": ["--help"], "value": "none"}],
    }


def described_click(option: Any) -> list[dict[str, Any]]:
    """One click option; the names that switch it off take no value either."""
    names = {"names": [*option.opts, *option.secondary_opts]}
    if option.is_flag or option.count:
        return [{**names, "value": "none"}]
    kinds = {"integer": "int", "integer range": "int", "float": "float", "float range": "float"}
    kinds["boolean"] = "bool"
    entry: dict[str, Any] = {**names, "value": kinds.get(option.type.name, "text")}
    if option.nargs != 1:
        entry["count"] = option.nargs
    choices = getattr(option.type, "choices", None)
    if choices:
        entry["choices"] = sorted(str(getattr(choice, "value", choice)) for choice in choices)
        entry["loose"] = not option.type.case_sensitive
    return [entry]


def version_of(names: list[str]) -> str | None:
    """The version of the first installed distribution of these names."""
    for name in names:
        try:
            return str(importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def main() -> None:
    """Write what `argv` asks for."""
    out, distributions, *targets = sys.argv[1:]
    target = found_target(targets)
    is_click = hasattr(target, "params") and hasattr(target, "make_context")
    found = click_schema(target) if is_click else argparse_schema(parser_of(target))
    found["version"] = version_of(distributions.split(","))
    Path(out).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
