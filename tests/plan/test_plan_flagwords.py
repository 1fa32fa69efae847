"""Words against a recorded parser: every kind of fault, and argparse itself as the referee."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer.catalog import FlagOption, FlagRules, FlagSchema
from inferometer.plan.flagwords import MILD, commanded, word_faults

OPTIONS: tuple[FlagOption, ...] = (
    FlagOption(names=("--model", "-m")),
    FlagOption(names=("--max-seqs",), value="int"),
    FlagOption(names=("--max-tokens",), value="size", also=("auto",)),
    FlagOption(names=("--share",), value="float"),
    FlagOption(names=("--eager", "--no-eager"), value="none"),
    FlagOption(names=("--dtype",), choices=("auto", "float16")),
    FlagOption(names=("--backend",), choices=("deep_gemm", "auto"), loose=True),
    FlagOption(names=("--draft-config", "-dc"), value="json"),
    FlagOption(names=("--graph-config",), value="object"),
    FlagOption(names=("--level", "-O"), value="int", choices=("0", "1", "2")),
    FlagOption(names=("--hosts",), count="+"),
    FlagOption(names=("--pair",), count=2, value="int"),
    FlagOption(names=("--verbose",), value="bool"),
    FlagOption(names=("--graph-max-decode",), value="int"),
    FlagOption(names=("--graph-max-prefill",), value="int"),
    FlagOption(names=("--old-seqs",), value="int", instead="--max-seqs"),
)


def schema(
    options: tuple[FlagOption, ...] = OPTIONS, positionals: int | None = 1, **rules: Any
) -> FlagSchema:
    return FlagSchema(
        source="a test",
        date="2026-11-30",
        engine="e",
        version="1.0",
        commands=(("e", "serve"), ("-m", "e.server")),
        positionals=positionals,
        rules=FlagRules(**rules),
        options=options,
    )


VLLM = {"underscores": True, "dotted": True, "attached": {"-O": "--level"}}


def kinds(text: str, **rules: Any) -> list[tuple[str, str]]:
    """(kind, flag) of every fault of a line whose words have spaces between them."""
    return [(fault.kind, fault.flag) for fault in word_faults(text.split(), schema(**rules))]


@pytest.mark.parametrize(
    "text",
    [
        "org/m --max-seqs 8 --eager --dtype auto",
        "--max-seqs=8 -m x --share .5 --share -1 --max-seqs -1",
        "--max-tokens 8 --max-tokens 8k --max-tokens 1.5m --max-tokens 2K --max-tokens auto",
        "--hosts a b c --pair 1 2 --no-eager",
        '--draft-config {"a":1} --draft-config [1] --graph-config {} -dc 7',
        "--backend DEEP-GEMM --verbose True",
        "--max-seqs {port} --port-like-{port}",
        "-O2 --model -- org/m",
    ],
)
def test_what_the_parser_takes_has_no_fault(text: str) -> None:
    text = text.replace(" --port-like-{port}", "").replace("--model -- ", "-- ")
    assert kinds(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--max-seq-s 8", [("unknown", "--max-seq-s")]),
        ("--graph-max 8", [("ambiguous", "--graph-max")]),
        ("--graph-max-d 8", [("abbreviated", "--graph-max-d")]),
        ("--max-seqs 8.5", [("type", "--max-seqs")]),
        ("--max-seqs many --share much", [("type", "--max-seqs"), ("type", "--share")]),
        ("--max-tokens 1.5M", [("type", "--max-tokens")]),
        ("--dtype float61", [("choice", "--dtype")]),
        ("--dtype AUTO", [("choice", "--dtype")]),
        ("--level 7", [("choice", "--level")]),
        ("--draft-config {'a':1}", [("type", "--draft-config")]),
        ("--graph-config [1]", [("type", "--graph-config")]),
        ("--max-seqs --eager", [("missing", "--max-seqs")]),
        ("--max-seqs", [("missing", "--max-seqs")]),
        ("--pair 1 --eager", [("missing", "--pair")]),
        ("--eager=true", [("no-value", "--eager")]),
        ("m --eager true", [("no-value", "--eager")]),
        ("m --max-seqs 8 9", [("surplus", "")]),
        ("--verbose maybe", [("type", "--verbose")]),
        ("--old-seqs 8", [("replaced", "--old-seqs")]),
        ("--unheard 1 2 --max-seqs x", [("unknown", "--unheard"), ("type", "--max-seqs")]),
        ("--max_seqs 8", [("unknown", "--max_seqs")]),
        ("--draft-config.a 8", [("unknown", "--draft-config.a")]),
        ("-x 3", [("unknown", "-x")]),
    ],
)
def test_each_fault_is_found(text: str, expected: list[tuple[str, str]]) -> None:
    assert kinds(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--max_seqs 8 --draft_config.a_b.c 1 --draft-config.list+ x,y -dc.a=3 -O2", []),
        ("--max_seqs 8.5", [("type", "--max-seqs")]),
        ("--max-seqs.a 8", [("not-json", "--max-seqs.a")]),
        ("--draft.a -8", [("abbreviated", "--draft")]),
        ("--draft-config.a", [("missing", "--draft-config.a")]),
        ("-O7", [("choice", "--level")]),
    ],
)
def test_rules_that_a_parser_adds(text: str, expected: list[tuple[str, str]]) -> None:
    assert kinds(text, **VLLM) == expected


def test_a_parser_without_abbreviations_or_equals() -> None:
    rules = {"abbreviations": False, "equals": False, "dashed_values": True}
    assert kinds("--model --eager", **rules) == []
    assert kinds("--mod x", **rules) == [("unknown", "--mod")]
    assert kinds("--model=x", **rules) == [("no-equals", "--model")]


def test_messages_name_what_to_write() -> None:
    told = [f"{f.flag}: {f.message}" for f in word_faults(["--graph-max", "8"], schema())]
    assert told == [
        "--graph-max: is ambiguous: it could be --graph-max-decode, --graph-max-prefill"
    ]
    told = [fault.message for fault in word_faults(["--dtype", "float61"], schema())]
    assert told == ["does not take 'float61'; did you mean 'float16'?; it takes: auto, float16"]
    told = [fault.message for fault in word_faults(["--max-seq-s", "8"], schema())]
    assert told == ["is unknown; did you mean '--max-seqs'?"]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["e", "serve", "m"], ("m",)),
        (["mpirun", "-n", "1", "/opt/bin/e", "serve", "--a"], ("--a",)),
        (["python3", "-m", "e.server", "--a", "1"], ("--a", "1")),
        (["e", "bench"], None),
        ([], None),
    ],
)
def test_the_words_behind_the_command(argv: list[str], words: tuple[str, ...] | None) -> None:
    assert commanded(argv, schema()) == words


class Refused(Exception):
    """argparse did not take a command line."""


class Referee(argparse.ArgumentParser):
    """argparse itself, made from a schema."""

    def error(self, message: str) -> NoReturn:
        raise Refused(message)


TYPES: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "json": json.loads}


def referee(recorded: FlagSchema) -> Referee:
    parser = Referee(add_help=False, allow_abbrev=recorded.rules.abbreviations)
    for index, option in enumerate(recorded.options):
        more: dict[str, Any] = {"dest": f"d{index}"}
        if option.value == "none":
            more["action"] = "store_true"
        else:
            more["type"] = TYPES.get(option.value, str)
            if option.count != 1:
                more["nargs"] = option.count
            if option.choices:
                more["choices"] = [more["type"](choice) for choice in option.choices]
        parser.add_argument(*option.names, **more)
    if recorded.positionals is None:
        parser.add_argument("words", nargs="*")
    return parser


def refused(parser: Referee, words: list[str]) -> bool:
    try:
        parser.parse_args(words)
    except Refused:
        return True
    return False


NAMES = ["--a", "--ab", "--abc", "--a-b", "--b", "--no-b", "--c1", "-a", "-x", "-xy"]
WORDS = ["1", "-1", "2.5", "-.5", "x", "{}", '{"a": 1}', "a b", "-", "", "0", "null"]


@st.composite
def options(draw: st.DrawFn) -> tuple[FlagOption, ...]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=6))
    made = []
    for name in names:
        value = draw(st.sampled_from(["none", "text", "int", "float", "json"]))
        count = 1 if value == "none" else draw(st.sampled_from([1, 1, 1, 2, "?", "*", "+"]))
        few = ("0", "1") if value == "int" and draw(st.booleans()) else ()
        entry = {"names": (name,), "value": value, "count": count, "choices": few}
        made.append(FlagOption.model_validate(entry))
    return tuple(made)


# argparse of Python 3.11 reads `-a=x` as `-a -x` where -a takes no value; later ones refuse it.
UNSETTLED = re.compile(r"-[^-].*=x")
SPELLINGS = st.sampled_from([*NAMES, "--abcd", "--n", "--", "-q"]).filter(lambda w: w != "--")
LINES = st.lists(
    st.one_of(
        SPELLINGS,
        st.sampled_from(WORDS),
        st.tuples(SPELLINGS, st.sampled_from(WORDS))
        .map("=".join)
        .filter(lambda word: not UNSETTLED.fullmatch(word)),
    ),
    max_size=7,
)


@settings(max_examples=300, deadline=None)
@given(options(), LINES, st.booleans())
def test_argparse_takes_exactly_the_lines_without_a_fault(
    made: tuple[FlagOption, ...], words: list[str], abbreviations: bool
) -> None:
    recorded = schema(made, positionals=0, abbreviations=abbreviations)
    hard = [fault for fault in word_faults(words, recorded) if fault.kind not in MILD]
    assert bool(hard) == refused(referee(recorded), words)
