"""Parsers recorded by a real interpreter from modules written for it, and from a help text."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from inferometer.catalog import FlagOption, FlagRules, FlagSchema, written_flags
from inferometer.engine.flagrecord import Recording, help_text, record_help, record_python
from inferometer.errors import EngineError, InputError

FILLED = """
import argparse, json

class Old(argparse.Action):
    def __init__(self, option_strings, dest, new_flag=None, **more):
        self.new_flag = new_flag
        super().__init__(option_strings, dest, **more)

def size(text):
    return int(text[:-1]) * 1000 if text.endswith("k") else int(text)

def maybe(text):
    return None if text in ("", "None") else int(text)

def mapping(text):
    value = json.loads(text)
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("no mapping")
    return value

def truth(text):
    return {"true": True, "false": False}[text]

def fill(parser):
    parser.add_argument("model", nargs="?")
    parser.add_argument("--seqs", "-s", type=int, default=3)
    parser.add_argument("--old-seqs", action=Old, new_flag="--seqs", type=int)
    parser.add_argument("--tokens", type=size)
    parser.add_argument("--limit", type=maybe)
    parser.add_argument("--share", type=float)
    parser.add_argument("--config", type=json.loads)
    parser.add_argument("--map", type=mapping)
    parser.add_argument("--truth", type=truth)
    parser.add_argument("--dtype", choices=["b", "a"])
    parser.add_argument("--moe", type=lambda t: t.lower().replace("-", "_"), choices=["x_y"])
    parser.add_argument("--names", nargs="+")
    parser.add_argument("--eager", action=argparse.BooleanOptionalAction)

def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--port", type=int)
    parser.parse_args()
    raise AssertionError("the server was started")

class Flexible(argparse.ArgumentParser):
    def parse_args(self, args=None, namespace=None):
        return super().parse_args([a.replace("_", "-") for a in args], namespace)

def flexible(parser: Flexible) -> Flexible:
    assert isinstance(parser, Flexible)
    parser.add_argument("--a-b")
    return parser
"""
CLICKED = """
import click

@click.group()
def main():
    pass

@main.command()
@click.argument("model")
@click.option("--tp_size", "--tp", type=int)
@click.option("--backend", type=click.Choice(["pytorch", "trt"], case_sensitive=False))
@click.option("--trust/--no-trust")
@click.option("--share", type=float)
def serve(**_):
    pass
"""


def option(*names: str, **more: object) -> FlagOption:
    return FlagOption.model_validate({"names": names, **more})


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "filled.py").write_text(FILLED)
    (tmp_path / "clicked.py").write_text(CLICKED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def asked(target: str, version: str | None = "1.0+cpu") -> Recording:
    command = ("e", "serve")
    return Recording("e", version, "a test", "2026-11-30", "2026-10", target, command)


def recorded(target: str) -> FlagSchema:
    return record_python(asked(target), sys.executable)


@pytest.mark.usefixtures("modules")
def test_a_filled_parser_is_recorded_by_what_its_types_take() -> None:
    found = recorded("filled:fill")
    assert (found.version, found.positionals, found.rules) == ("1.0", 1, FlagRules())
    assert found.options[1:] == (
        option("--seqs", "-s", value="int"),
        option("--old-seqs", value="int", instead="--seqs"),
        option("--tokens", value="size"),
        option("--limit", value="int", also=("", "None")),
        option("--share", value="float"),
        option("--config", value="json"),
        option("--map", value="object"),
        option("--truth", value="bool"),
        option("--dtype", choices=("a", "b")),
        option("--moe", choices=("x_y",), loose=True),
        option("--names", count="+"),
        option("--eager", "--no-eager", value="none"),
    )
    assert FlagSchema.model_validate_json(written_flags(found)) == found


@pytest.mark.usefixtures("modules")
def test_a_function_that_parses_is_stopped_there() -> None:
    found = recorded("filled:main")
    assert not found.rules.abbreviations
    assert found.options == (option("-h", "--help", value="none"), option("--port", value="int"))


@pytest.mark.usefixtures("modules")
def test_a_parser_class_of_its_own_is_tried_for_its_rules() -> None:
    found = recorded("filled:flexible")
    assert found.rules == FlagRules(underscores=True)
    assert found.options[1:] == (option("--a-b"),)


@pytest.mark.usefixtures("modules")
def test_a_click_command_is_recorded() -> None:
    found = recorded("clicked:main")
    assert found.rules == FlagRules(abbreviations=False, dashed_values=True)
    assert found.positionals == 1
    assert found.options == (
        option("--tp_size", "--tp", value="int"),
        option("--backend", choices=("pytorch", "trt"), loose=True),
        option("--trust", "--no-trust", value="none"),
        option("--share", value="float"),
        option("--help", value="none"),
    )


@pytest.mark.usefixtures("modules")
def test_what_cannot_be_recorded_is_told() -> None:
    with pytest.raises(EngineError, match="no parser found:\nfilled:gone: AttributeError"):
        recorded("filled:gone")
    with pytest.raises(EngineError, match="No such file"):
        record_python(asked("filled:fill"), "/no/python")
    with pytest.raises(InputError, match="does not tell its version; give it with --version"):
        record_python(asked("filled:fill", None), sys.executable)
    with pytest.raises(
        InputError, match="no parser is known for engine 'vlm'; did you mean 'vllm'"
    ):
        record_python(Recording("vlm", None, "a test", "2026-11-30"), sys.executable)


HELP = """----- common params -----

-h,    --help, --usage                  print usage and exit
-t,    --threads N                      number of CPU threads (default: -1)
-C,    --cpu-mask M                     CPU affinity mask
                                        --not-an-option of any kind
-fa,   --flash-attn [on|off|auto]       set Flash Attention use
--rope-scaling {none,linear, yarn}      RoPE frequency scaling method
--mmap, --no-mmap                       whether to memory-map model
--lora-scaled FNAME SCALE               path to LoRA adapter with user defined scaling
--control-vector-layer-range START END
                                        layer range
"""


def test_a_help_text_is_read() -> None:
    found = record_help(Recording("llama.cpp", "b1", "a test", "2026-11-30"), HELP)
    assert found.commands == (("llama-server",),)
    assert found.rules.equals is False
    assert found.options == (
        option("-h", "--help", "--usage", value="none"),
        option("-t", "--threads", value="float"),
        option("-C", "--cpu-mask"),
        option("-fa", "--flash-attn"),
        option("--rope-scaling", choices=("none", "linear", "yarn")),
        option("--mmap", "--no-mmap", value="none"),
        option("--lora-scaled", count=2),
        option("--control-vector-layer-range", count=2),
    )
    with pytest.raises(InputError, match="no option is in this help text"):
        record_help(Recording("llama.cpp", "b1", "a test", "2026-11-30"), "usage: nothing")


def test_a_program_is_asked_for_its_help(tmp_path: Path) -> None:
    program = tmp_path / "server"
    program.write_text('#!/bin/sh\necho "--port N   the port"\ntest "$1" = --help\n')
    program.chmod(0o755)
    assert help_text(str(program)) == "--port N   the port\n"
    program.write_text("#!/bin/sh\necho broken >&2; exit 3\n")
    with pytest.raises(EngineError, match="failed:\nbroken"):
        help_text(str(program))
