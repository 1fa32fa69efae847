"""The group of verbs, and the edge where every error becomes a message and an exit code."""

from __future__ import annotations

import errno
import gc
import importlib
import os
import sys

import click

from inferometer import __version__
from inferometer.errors import InferometerError, InputError, StoreError, nearest
from inferometer.load.bare import UNTHREADED

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
VERBS = (
    *("plan", "launch", "explain", "audit"),
    *("run", "bench", "predict"),
    *("show", "report", "doctor"),
    *("workload", "flags", "engine"),
)


class Verbs(click.Group):
    """Imports the module of a verb when the verb is used: an engine is started for every point, and
    must not wait for the page's plotting library.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """In the order of use."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb; a UsageError names the nearest one."""
        if cmd_name not in VERBS:
            ctx.fail(f"no verb {cmd_name!r}{nearest(cmd_name, VERBS)}")
        # What is imported stays: to look for garbage in it is a sixth of the time that it takes.
        gc.disable()
        # Not for longer than numpy looks at it: an engine that is started has its own wishes.
        added = UNTHREADED.keys() - os.environ.keys()
        os.environ.update({name: UNTHREADED[name] for name in added})
        try:
            module = importlib.import_module(f"inferometer.cli.{cmd_name}")
        finally:
            for name in added:
                del os.environ[name]
        gc.freeze()
        gc.enable()
        command: click.Command = getattr(module, cmd_name)
        return command


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: inferometer run quickstart",
)
@click.version_option(__version__, prog_name="inferometer")
def cli() -> None:
    """Measure LLM inference: declare, run, judge, keep, show."""


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        code = cli.main(standalone_mode=False)
        sys.stdout.flush()
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
        # The reader of our output has left; there is nobody to tell. The code is click's own, which
        # meets most of these first.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:
        # A path that cannot be written, a full disk: the user's to mend. Any other is ours.
        if error.filename is None and error.errno not in NO_SPACE:
            raise
        place = f"{error.filename}: " if error.filename else ""
        click.echo(f"error: {place}{error.strerror or error}", err=True)
        code = StoreError.exit_code
    sys.exit(code)
