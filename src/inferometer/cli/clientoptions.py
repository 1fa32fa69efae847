"""Options of the client that sends: the same for every verb that measures in real time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import click

from inferometer.errors import InputError, Problem
from inferometer.load.heads import header_problems

F = TypeVar("F", bound=Callable[..., Any])

MOST_WORKERS = 256
"""More than any machine's cores are worth; each is a process."""
HIDDEN = "[not kept]"
"""Stands for the text of a header wherever a command is written down: it may be a secret."""


def client_options(command: F) -> F:
    """`--header` and `--workers`."""
    for option in (
        click.option(
            "--workers",
            type=click.IntRange(min=1, max=MOST_WORKERS),
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
    context: click.Context, _parameter: click.Parameter, given: Sequence[str]
) -> dict[str, str]:
    """What was typed, as headers; whatever no request can bear is refused before anything begins.
    InputError has every problem.
    """
    headers: dict[str, str] = {}
    problems = []
    for item in given:
        name, colon, text = (part.strip() for part in item.partition(":"))
        if not colon or not name:
            problems.append(Problem(f"{name!r} is not NAME:TEXT, such as X-Session:7", "--header"))
        elif name.lower() in map(str.lower, headers):
            problems.append(Problem("is given twice", "--header", None, name))
        else:
            headers[name] = text
    if not context.resilient_parsing:
        problems += [
            replace(each, file=each.file or "--header") for each in header_problems(headers)
        ]
    if problems:
        raise InputError(*problems)
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
