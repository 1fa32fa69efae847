"""`inferometer engine simulated`: the built-in engine, served over HTTP."""

from __future__ import annotations

import click

from inferometer.engine.simulated.options import parse_options
from inferometer.engine.simulated.server import serve

EXAMPLE = """\b
Example:
  inferometer engine simulated --model Qwen/Qwen3-8B --gpu h200 --tensor-parallel-size 1
"""


@click.group(short_help="Serve the built-in engine.", epilog=EXAMPLE)
def engine() -> None:
    """Engines that come with Inferometer."""


@engine.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def simulated(arguments: tuple[str, ...]) -> None:
    """Serve the built-in engine: an OpenAI-compatible server whose times are computed.

    Its flags are named as vLLM's where they exist; `--help` lists them.
    """
    if {"-h", "--help"}.intersection(arguments):
        # The help is the engine's own, which knows its flags and nothing of this command.
        click.echo(EXAMPLE.removeprefix("\b\n"))
    serve(parse_options(arguments))
