"""The group of verbs, and the edge where every error becomes a message and an exit code."""

from __future__ import annotations

import os
import sys

import click

from inferometer import __version__
from inferometer.cli.bench import bench
from inferometer.cli.engine import engine
from inferometer.cli.predict import predict
from inferometer.cli.report import report
from inferometer.cli.run import run
from inferometer.cli.show import show
from inferometer.errors import InferometerError, InputError


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: inferometer run quickstart",
)
@click.version_option(__version__, prog_name="inferometer")
def cli() -> None:
    """Measure LLM inference: declare, run, judge, keep, show."""


for verb in (run, bench, predict, show, report, engine):
    cli.add_command(verb)


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        code = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = InputError.exit_code
    except InferometerError as error:
        for line in str(error).splitlines():
            click.echo(f"error: {line}", err=True)
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("stopped", err=True)
        code = 130
    except BrokenPipeError:
        # The reader of our output has left; there is nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    sys.exit(code)
