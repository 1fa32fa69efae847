"""`inferometer explain`: where each value of one point's launch came from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import click

from inferometer.cli.launch import chosen, point_options
from inferometer.errors import InputError, nearest
from inferometer.plan import Explanation
from inferometer.plan import explain as explained

_WORD = re.compile(r"[a-z_]+")

EXAMPLES = """\b
Examples:
  inferometer explain dsv4-fp4-b300-vllm --config nvidia-master.yaml --runners runners.yaml \\
    --conc 64 --tp 4 --max-num-batched-tokens
  inferometer explain KEY --config master.yaml --runners runners.yaml --conc 8 workload
"""


# A flag of the engine is no option here, and goes to NAMES.
@click.command(
    short_help="Print which rule set each value of a point's launch.",
    epilog=EXAMPLES,
    context_settings={"ignore_unknown_options": True},
)
@click.argument("key")
@click.argument("names", nargs=-1)
@point_options
def explain(
    key: str,
    names: tuple[str, ...],
    masters: tuple[str, ...],
    runners: str | None,
    compat: bool,
    **asked: Any,
) -> None:
    """Print every value of a point's launch with the file, line and condition of the rule that set
    it, and its expression with the point's values put in.

    NAMES keep some: a flag (after -- where an option here is called so), a variable, a file, a
    section such as workload. Values of a deployment of several roles stand under the launch that
    has them, such as prefill_0; of a role's other launches only what differs is shown.
    """
    choice = chosen(key, masters, runners, compat, asked)
    values = _named(explained(choice.point, choice.recipes), names)
    click.echo("\n".join(line for value in values for line in _lines(value)))


def _named(values: Sequence[Explanation], names: Sequence[str]) -> list[Explanation]:
    """Those that have a part of one of the names, and what their expressions name. InputError for a
    name that no value has.
    """
    known = {name for value in values for name in _names(value)}
    for name in names:
        if name not in known:
            options = {text for param in explain.params for text in param.opts}
            raise InputError(f"no value has the name {name!r}{nearest(name, known | options)}")
    kept = [value for value in values if not names or _names(value) & set(names)]
    used = {word for value in kept for word in _WORD.findall(_written(value))}
    agreed = [value for value in values if "let" in value.target[:2] and value not in kept]
    return [value for value in agreed if value.target[-1] in used] + kept


def _names(value: Explanation) -> set[str]:
    return {*value.target, ".".join(value.target)}


def _written(value: Explanation) -> str:
    return f"{value.origin.when or ''} {value.origin.expression or ''}"


def _lines(value: Explanation) -> Iterator[str]:
    origin = value.origin
    yield f"{'.'.join(value.target)} = {value.value}"
    yield f"    {origin.layer}:{origin.line}"
    if origin.when is not None:
        yield f"    when {origin.when}"
    if origin.expression is not None:
        yield f"    {origin.expression}"
        if value.filled != origin.expression:
            yield f"    {value.filled}"
