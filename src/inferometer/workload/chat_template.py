"""What a model's chat template makes of one user message, as servers render it.

A template is somebody else's program: it is rendered in a sandbox, in the process that `fit` starts
for a tokenizer. Where it cannot be rendered the reason is given, and the overhead must be learned
from the server.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NoReturn

import jinja2
import orjson
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from inferometer.workload.tokenizer_files import TokenizerFiles

_SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token")


class NoTemplate(Exception):
    """There is none, or none that renders; the text says which."""


def chat_wrapper(files: TokenizerFiles) -> Callable[[str], str]:
    """From the content of one user message to the text that the model is given.

    Raises NoTemplate.
    """
    config = _config(files)
    source = _source(files, config)
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = _now
    environment.filters["tojson"] = _as_json
    names = {name: _token(config.get(name)) for name in _SPECIAL}
    try:
        template = environment.from_string(source)
    except jinja2.TemplateError as error:
        raise NoTemplate(f"the chat template is not read: {error}") from None

    def wrap(text: str) -> str:
        messages = [{"role": "user", "content": text}]
        try:
            return template.render(
                messages=messages, add_generation_prompt=True, tools=None, documents=None, **names
            )
        except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise NoTemplate(f"the chat template does not render: {error}") from None

    return wrap


def _config(files: TokenizerFiles) -> dict[str, Any]:
    if files.config is None:
        return {}
    try:
        config = orjson.loads(files.config.read_bytes())
    except orjson.JSONDecodeError:
        raise NoTemplate(f"{files.config} is no JSON") from None
    return config if isinstance(config, dict) else {}


def _source(files: TokenizerFiles, config: dict[str, Any]) -> str:
    if files.template is not None:
        return files.template.read_text("utf-8")
    given = config.get("chat_template")
    if isinstance(given, list):
        named = {entry.get("name"): entry.get("template") for entry in given}
        given = named.get("default")
    if not isinstance(given, str):
        raise NoTemplate("there is no chat template beside the tokenizer")
    return given


def _token(given: object) -> str:
    """Configs write a special token as text, or as an object that holds it."""
    if isinstance(given, dict):
        given = given.get("content")
    return given if isinstance(given, str) else ""


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _now(pattern: str) -> str:
    return datetime.now(UTC).strftime(pattern)


def _as_json(value: object, **_: object) -> str:
    return orjson.dumps(value).decode()
