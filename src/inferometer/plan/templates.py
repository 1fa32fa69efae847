"""Text with `{expression}` parts. `{{` and `}}` stand for braces; site placeholders stay.

A site placeholder is known only where the engine is started (its port, where the weights lie), so
`{port}` passes through, to be filled by replacing exactly that text. `{port+1}` is the port after
it. `{prefill_0_host}` and `{prefill_0_port}` are those of another launch of the deployment, by its
name; inside a launch `{host}` and `{port}` are its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from inferometer.errors import InputError
from inferometer.plan.expressions import Names, Value, check, evaluate, filled_in

SITE_PLACEHOLDERS = frozenset(
    {"port", "host", "model_path", "models_dir", "result_dir", "workspace", "repo", "pid"}
)

MAX_TEXT = 1_000_000
"""Characters of a template, and of what it renders to. The largest real one has 10,000."""

_BESIDE_PORT = re.compile(r"port\+[0-9]{1,5}")
_OF_LAUNCH = re.compile(
    r"(prefill|decode|aggregated|router)_[0-9]{1,4}(_node[0-9]{1,4})?_(host|port(\+[0-9]{1,5})?)"
)
_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|([{}])")


def render(template: str, names: Names) -> Value:
    """The template with its expressions evaluated. One that is a single `{expression}` and nothing
    else keeps the type of its value; otherwise the result is text. InputError on any fault.
    """
    if "{" not in template and "}" not in template:
        return template
    whole = _PART.fullmatch(template)
    if whole and whole[1] is not None and not is_site_placeholder(whole[1]):
        return evaluate(whole[1], names)
    left = MAX_TEXT

    def part(found: re.Match[str]) -> str:
        nonlocal left
        text = _rendered(found, names)
        left -= len(text)
        if left < 0:
            raise InputError(f"a text has at most {MAX_TEXT} characters")
        return text

    return _PART.sub(part, template)


def is_site_placeholder(name: str) -> bool:
    """Whether `name`, from inside braces, is filled in where the engine is started."""
    name = name.strip()
    if name in SITE_PLACEHOLDERS or _BESIDE_PORT.fullmatch(name):
        return True
    return _OF_LAUNCH.fullmatch(name) is not None


def expressions(template: str) -> Iterator[str]:
    """The sources of the expressions in a template."""
    for part in _PART.finditer(template):
        if part[2]:
            raise InputError(f"a single {part[2]} in {template!r}; write it twice for a brace")
        if part[1] is not None and not is_site_placeholder(part[1]):
            yield part[1]


def check_template(template: str, known: Collection[str]) -> None:
    """Refuse a template with a fault that shows without a point."""
    if len(template) > MAX_TEXT:
        raise InputError(f"a text has at most {MAX_TEXT} characters, got {len(template)}")
    for source in expressions(template):
        check(source, known)


def with_values(template: str, names: Names) -> str:
    """The template with the values of names in place of the names: `{2 * conc}` as `{2 * 8}`."""

    def part(found: re.Match[str]) -> str:
        if found[1] is None or is_site_placeholder(found[1]):
            return found[0]
        return f"{{{filled_in(found[1], names)}}}"

    return _PART.sub(part, template)


def as_text(value: Value) -> str:
    """A value inside text: true and false in lower case, numbers in their shortest exact form,
    a list as compact JSON.
    """
    if isinstance(value, tuple):
        return f"[{','.join(str(number) for number in value)}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rendered(part: re.Match[str], names: Names) -> str:
    if part[0] in ("{{", "}}"):
        return part[0][0]
    if part[1] is None:
        raise InputError(f"a single {part[0]}; write it twice for a brace")
    name = part[1].strip()
    return f"{{{name}}}" if is_site_placeholder(name) else as_text(evaluate(part[1], names))
