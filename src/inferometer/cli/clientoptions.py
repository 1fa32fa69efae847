"""Options of the client that sends: the same for every verb that measures in real time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

HIDDEN = "[not kept]"
"""Stands for the text of a header wherever a command is written down: it may be a secret."""


def client_options(command: F) -> F:
    """`--header` and `--workers`."""
    for option in (
        click.option(
            "--workers",
            type=click.IntRange(min=1),
            help="Processes that send [by concurrency and cores].",
        ),
        click.option(
            "--header",
            "headers",
            multiple=True,
            callback=_headers,
            metavar="NAME:TEXT",
            help="Header of every request; its text is not kept.",
        ),
    ):
        command = option(command)
    return command


def _headers(
    _context: click.Context, _parameter: click.Parameter, given: Sequence[str]
) -> dict[str, str]:
    headers = {}
    for item in given:
        name, colon, text = item.partition(":")
        if not colon or not name.strip():
            raise click.BadParameter(f"{name!r} is not NAME:TEXT, such as X-Session:7")
        headers[name.strip()] = text.strip()
    return headers


def without_secrets(arguments: Sequence[str]) -> list[str]:
    """What was typed, with the text of every header left out."""
    shown: list[str] = []
    for argument in arguments:
        if shown and shown[-1] == "--header":
            shown.append(_hidden(argument))
        elif argument.startswith("--header="):
            shown.append("--header=" + _hidden(argument.removeprefix("--header=")))
        else:
            shown.append(argument)
    return shown


def _hidden(header: str) -> str:
    return f"{header.partition(':')[0]}:{HIDDEN}"
