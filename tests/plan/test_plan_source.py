"""YAML to plain data with lines; what a person never means is a problem."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from inferometer.errors import InputError, Problem
from inferometer.plan.source import MAX_BYTES, Document, dotted, read_document, read_file


def parse(text: str | bytes) -> Document:
    raw = text.encode() if isinstance(text, str) else text
    return read_document("a.yaml", lambda _path: raw, "mapping")


def refusal(text: str | bytes) -> Problem:
    with pytest.raises(InputError) as caught:
        parse(text)
    assert len(caught.value.problems) == 1
    return caught.value.problems[0]


def test_values_know_their_lines_and_columns() -> None:
    document = parse("a:\n  b: [1, {c: 2}]\nd: x\n")
    assert document.data == {"a": {"b": [1, {"c": 2}]}, "d": "x"}
    assert document.positions == {
        (): (1, 1),
        ("a",): (1, 1),
        ("a", "b"): (2, 3),
        ("a", "b", 0): (2, 7),
        ("a", "b", 1): (2, 10),
        ("a", "b", 1, "c"): (2, 11),
        ("d",): (3, 1),
    }
    assert document.line(("a", "b", 7, "missing")) == 2


def test_a_key_given_twice_is_a_problem_and_the_rest_is_read() -> None:
    document = parse("a: 1\nb:\n  c: 1\n  c: 2\n")
    assert document.data == {"a": 1, "b": {"c": 1}}
    assert document.problems == (Problem("given twice, first in line 3", "a.yaml", 4, "b.c"),)


def test_where_the_last_counts_it_stands_where_the_first_stood() -> None:
    raw = b"a: {x: [1, 2]}\nb: 1\na: 3\na: {y: 4}\n"
    document = read_document("a.yaml", lambda _path: raw, "mapping", "last")
    assert document.data == yaml.safe_load(raw) == {"a": {"y": 4}, "b": 1}
    assert list(document.data) == ["a", "b"]
    assert document.problems == ()
    assert document.warnings == (
        Problem("given twice, first in line 1; the last counts", "a.yaml", 3, "a"),
        Problem("given twice, first in line 3; the last counts", "a.yaml", 4, "a"),
    )
    assert (document.line(("a",)), document.line(("a", "y"))) == (4, 4)
    assert ("a", "x") not in document.positions


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "the file is empty; expected a mapping"),
        ("# only a comment\n", 1, "the file is empty; expected a mapping"),
        ("- a\n- b\n", 1, "expected a mapping at the top, got a list"),
        ("just words", 1, "expected a mapping at the top, got a single value"),
        ("a: 1\nb: [1,\n", 3, "not YAML: "),
        ("a: 1\nb: c: d\n", 2, "not YAML: mapping values are not allowed in this context"),
        ("a: *x\n", 1, "not YAML: found undefined alias"),
        ("a: 1\n---\nb: 2\n", 2, "not YAML: but found another document"),
        (b"a: 1\nb: \xc3(\n", 2, "not YAML: the bytes are not UTF-8"),
        ("ä: 1\nb: \x00\n", 2, "not YAML: character #x00 is not allowed"),
        ("a: " + "[" * 60 + "]" * 60, 1, "more than 40 levels, aliases expanded"),
        ("[" * 100_000, 1, "not YAML: exceeded maximum nesting depth"),
        ("a: &x [*x]", 1, "more than 40 levels, aliases expanded"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str | bytes, line: int, message: str) -> None:
    problem = refusal(text)
    assert (problem.file, problem.line) == ("a.yaml", line)
    assert problem.message.startswith(message)


def test_aliases_that_blow_up_are_refused() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 9):
        aliases = ", ".join([f"*a{level - 1}"] * 10)
        levels.append(f"a{level}: &a{level} [{aliases}]")
    assert refusal("\n".join(levels)).message == "more than 200000 values, aliases expanded"


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("a: 2026-08-22", "a", "'2026-08-22' is read as a timestamp; write it in quotes"),
        ("a: !secret x", "a", "'x' is read as a !secret; write it in quotes"),
        ("a: !!int four", "a", "'four' is no int"),
        ("a: {8: x}", "a", "'8' as a key is not text; write it in quotes"),
        ("a: {<<: 3}", "a", "a merge key (<<) takes a mapping or a list of mappings"),
    ],
)
def test_values_that_nobody_means(text: str, key: str, message: str) -> None:
    assert parse(text).problems == (Problem(message, "a.yaml", 1, key),)


def test_scalars_aliases_and_merges_are_read_as_the_safe_loader_reads_them() -> None:
    text = """
    numbers: [1, -2, 2_063_837, 0x1F, 1.5, .5, 1e3, 1.0e+3, yes, off, ~, null, 'quoted', 010]
    base: &base {a: 1, b: 2}
    other: &other {b: 3, c: 4}
    copy: *base
    merged: {<<: [*base, *other], a: 9}
    one: {<<: *base}
    """
    document = parse(text)
    assert document.data == yaml.safe_load(text)
    assert document.problems == ()


def test_a_path_in_words() -> None:
    path = ("qwen", "scenarios", "fixed-seq-len", 0, "search-space", 1, "tp")
    assert dotted(path) == "qwen.scenarios.fixed-seq-len[0].search-space[1].tp"
    assert dotted(()) == ""


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    path = str(tmp_path / "none.yaml")
    with pytest.raises(InputError) as caught:
        read_file(path)
    problem = Problem("cannot be read: No such file or directory", path)
    assert caught.value.problems == (problem,)


@pytest.mark.parametrize("name", ["amd-master.yaml", "nvidia-master.yaml", "runners.yaml"])
def test_real_files_are_read_as_the_safe_loader_reads_them(shared_data: Path, name: str) -> None:
    path = shared_data / "inferencex" / name
    document = read_document(str(path), read_file, "mapping")
    assert document.problems == ()
    assert document.data == yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)


def test_a_device_is_refused() -> None:
    with pytest.raises(InputError, match="a pipe or a device, not a file"):
        read_file("/dev/zero")


def test_no_more_is_read_than_a_file_may_have(tmp_path: Path) -> None:
    sparse = tmp_path / "large.yaml"
    with sparse.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(InputError, match="larger than 16000000 bytes"):
        read_file(str(sparse))
