"""Makes docs/cli.md from the command line's own help: `python tests/docs/docs_cli.py`."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import click

from inferometer import errors
from inferometer.cli.main import cli

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
WIDTH = 80
HEAD = """# Command line

Every verb and option, as `--help` prints it. This page is made by `python tests/docs/docs_cli.py`;
a test fails where it differs.

Results go to stdout (a table, `--format json` one object a line as in
[result.json](formats.md#resultjson-result), or `--format csv`); progress, warnings and errors to
stderr. An API key is taken from `OPENAI_API_KEY`.

Stop with Ctrl-C: what was measured is kept, and the same command goes on where it stopped.

## Exit codes

| Code | Means |
|---|---|
| 0 | done |
"""
EXITS = {
    errors.InferometerError: "anything else that went wrong and is no fault of the program",
    errors.InputError: "a flag, a file or a value cannot be used; every problem is listed",
    errors.EngineError: "no engine answers, or it did not start; points were not measured",
    errors.StoreError: "a run directory is missing, damaged, of a newer format, or in use",
    errors.VerdictError: "all was measured; a point is invalid, or `doctor client` trusts no level",
    errors.GateError: "the audit is complete, and the change must not be merged as it is",
    errors.Interrupted: "stopped by the user; what was measured is kept",
}


def commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """(words, command, context) of the group and of every verb, depth first."""
    root = click.Context(cli, info_name="inferometer", **settings())
    yield from _below("inferometer", cli, root)


def settings() -> dict[str, Any]:
    """The group's own settings, at a fixed width."""
    return {**cli.context_settings, "terminal_width": WIDTH}


def engine_help() -> str:
    """What `inferometer engine simulated --help` prints."""
    printed = io.StringIO()
    with (
        mock.patch.dict(os.environ, {"COLUMNS": str(WIDTH), "NO_COLOR": "1"}),
        contextlib.redirect_stdout(printed),
        contextlib.suppress(SystemExit),
    ):
        cli.main(["engine", "simulated", "--help"], standalone_mode=False)
    return printed.getvalue()


def page() -> str:
    """The whole page."""
    exits = (f"| {kind.exit_code} | {meaning} |\n" for kind, meaning in EXITS.items())
    parts = [HEAD + "".join(exits)]
    for words, command, context in commands():
        text = engine_help() if words.endswith(" simulated") else command.get_help(context)
        lines = (line.rstrip() for line in text.rstrip().splitlines())
        parts.append(f"## {words}\n\n```text\n" + "\n".join(lines) + "\n```\n")
    return "\n".join(parts)


def _below(
    words: str, command: click.Command, context: click.Context
) -> Iterator[tuple[str, click.Command, click.Context]]:
    yield words, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            verb = command.get_command(context, name)
            assert verb is not None
            below = click.Context(verb, parent=context, info_name=name, **settings())
            yield from _below(f"{words} {name}", verb, below)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
