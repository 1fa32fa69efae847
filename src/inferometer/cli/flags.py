"""`inferometer flags`: the recorded parsers of engines: record one, list them."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from inferometer.catalog import FlagSchema, flag_schemas, recorded_flags, written_flags
from inferometer.engine.flagrecord import Recording, help_text, record_help, record_python
from inferometer.errors import InputError

EXAMPLES = """\b
Examples:
  inferometer flags record vllm --python env/bin/python -o vllm-0.32.0.json
  inferometer flags record llama.cpp --help-of build/bin/llama-server --version b11434
  inferometer flags list
"""


@click.group(short_help="List or record the flags that engines take.", epilog=EXAMPLES)
def flags() -> None:
    """Flags that engines take, by version, as recorded from the engines themselves."""


@flags.command()
@click.argument("engine")
@click.option("--python", help="Interpreter of the engine's environment.")
@click.option("--parser", "target", metavar="MODULE:FUNCTION", help="Where its parser is made.")
@click.option("--command", help="Words of the command line before the flags.")
@click.option("--help-of", "program", help="Read the --help of this program instead.")
@click.option("--version", help="The engine's version, where it does not tell.")
@click.option("--released", metavar="DATE", help="When that version came out.")
@click.option("--source", help="Where the engine is from.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="File to write [stdout].")
def record(  # noqa: PLR0913 - one parameter an option
    engine: str,
    python: str | None,
    target: str | None,
    command: str | None,
    program: str | None,
    version: str | None,
    released: str | None,
    source: str | None,
    out: Path | None,
) -> None:
    """Record the flags that an installed ENGINE takes, as its own parser has them.

    ENGINE is its name in config files: vllm, sglang, trt, atom, or any other with --parser and
    --command. Nothing is served; the engine's modules are imported.
    """
    recording = Recording(
        engine=engine,
        version=version,
        source=source or f"the parser of an installed {engine}",
        date=datetime.now(UTC).date().isoformat(),
        released=released,
        target=target,
        command=tuple(command.split()) if command else None,
    )
    text = written_flags(_recorded(recording, python, program))
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")


def _recorded(recording: Recording, python: str | None, program: str | None) -> FlagSchema:
    if (python is None) == (program is None):
        raise InputError("give --python, or --help-of for an engine that is no Python program")
    if python is not None:
        return record_python(recording, python)
    assert program is not None
    return record_help(recording, help_text(program))


@flags.command("list")
def list_() -> None:
    """Print what is recorded: engine, version, release, number of flags."""
    for engine in dict.fromkeys(engine for engine, _ in recorded_flags()):
        for schema in flag_schemas(engine):
            released = schema.released or "-"
            click.echo(f"{engine}\t{schema.version}\t{released}\t{len(schema.options)} flags")
