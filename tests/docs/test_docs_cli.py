"""docs/cli.md is the help as printed; commands on every page parse, and the marked ones run."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click
import duckdb
import pytest
from docs_cli import PAGE, commands, engine_help, page
from docs_pages import DOCS, PAGES, blocks, command_words, parse
from docs_pages import commands as commands_of

from inferometer.cli.main import VERBS, cli
from inferometer.errors import InputError
from inferometer.plan import expand, load_configs, load_recipes, read_file, recipe_roots, resolve

TEXT = PAGE.read_text(encoding="utf-8")
FLAG = re.compile(r"(?<![\w-])--?[a-z][\w-]*")


def undocumented(text: str) -> list[str]:
    """`verb --option` of every option that the section of its verb does not show."""
    missing = []
    for words, command, _ in commands():
        part = text.partition(f"\n## {words}\n")[2].partition("\n## ")[0]
        flags = {flag for parameter in command.params for flag in parameter.opts}
        if words.endswith(" simulated"):
            flags = set(FLAG.findall(engine_help())) | {"arguments"}
            part += " arguments"
        shown = set(FLAG.findall(part)) | {word.lower() for word in re.findall(r"\w+", part)}
        missing += [f"{words} {flag}" for flag in sorted(flags - shown)]
    return missing


def test_every_verb_and_option_is_on_the_page() -> None:
    assert {words for words, *_ in commands()} >= {f"inferometer {verb}" for verb in VERBS}
    assert undocumented(TEXT) == []


def test_an_option_or_verb_that_is_missing_is_seen() -> None:
    assert undocumented(TEXT.replace("--usage-every-chunk", "--x")) == [
        "inferometer bench --usage-every-chunk"
    ]
    assert undocumented(TEXT.replace("--never-ready", "")) == [
        "inferometer engine simulated --never-ready"
    ]
    assert "inferometer show run" in undocumented(TEXT.replace("## inferometer show\n", ""))


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="argparse words its help anew there")
def test_the_page_is_the_help_as_printed() -> None:
    assert page() == TEXT, "run: python tests/docs/docs_cli.py"


def fault(words: list[str]) -> str | None:
    """Why a command would not run; None where it would."""
    try:
        parse(words)
    except (click.ClickException, InputError) as error:
        return str(error)
    return None


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_parse(path: Path) -> None:
    typed = commands_of(path.read_text(encoding="utf-8"))
    assert [(" ".join(words), why) for words in typed if (why := fault(words))] == []


def test_commands_are_found() -> None:
    assert sum(len(commands_of(path.read_text(encoding="utf-8"))) for path in PAGES) > 8
    text = "inferometer show x --format json | jq . # and\ninferometer run a \\\n  b 'c d' > e"
    assert list(command_words(text)) == [
        ["inferometer", "show", "x", "--format", "json"],
        ["inferometer", "run", "a", "b", "c d"],
    ]


@pytest.mark.parametrize(
    "command",
    [
        "inferometer",
        "inferometer runn quickstart",
        "inferometer run",
        "inferometer show x --form json",
        "inferometer bench http://127.0.0.1:8000 --concurrency none",
        "inferometer engine simulated --model Qwen/Qwen3-8B --gpu h201",
    ],
)
def test_a_command_that_would_not_run_does_not_parse(command: str) -> None:
    assert fault(command.split())


def test_marked_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = 0
    for path in PAGES:
        for block in blocks(path.read_text(encoding="utf-8")):
            write_file(block.words, block.text, tmp_path)
            if block.words[:2] == ("bash", "exec"):
                for words in command_words(block.text):
                    assert words[0] == "inferometer"
                    cli.main(words[1:], standalone_mode=False)
                    ran += 1
    assert ran == 8
    assert (tmp_path / "first.html").stat().st_size > 1_000_000
    run_examples(tmp_path / "runs" / "example")


def run_examples(run: Path) -> None:
    """The Python and SQL of docs/formats.md, on a run that one of its commands made."""
    found = blocks((DOCS / "formats.md").read_text(encoding="utf-8"))
    (python,) = (block.text for block in found if block.words == ("python", "exec"))
    exec(compile(python, "docs/formats.md", "exec"), {"run": str(run)})
    wrong = python.replace("varint.decode(arrivals) ", "varint.decode(arrivals)[1:] ")
    with pytest.raises(AssertionError):
        exec(compile(wrong, "docs/formats.md", "exec"), {"run": str(run)})
    (sql,) = (block.text for block in found if block.words == ("sql", "exec"))
    rows = duckdb.execute(sql.replace("RUN", str(run))).fetchall()
    assert {(phase, status) for phase, status, _, _ in rows} == {
        ("warmup", "ok"),
        ("measured", "ok"),
    }


def test_the_example_resolves(tmp_path: Path) -> None:
    for block in blocks((DOCS / "formats.md").read_text(encoding="utf-8")):
        write_file(block.words, block.text, tmp_path)
    master = str(tmp_path / "master.yaml")
    configs = load_configs([master], str(tmp_path / "runners.yaml"))
    assert configs.warnings == ()
    recipes = load_recipes(read_file, recipe_roots([master]))
    plans = {point.id: resolve(point, recipes) for point in expand(configs)}
    assert [name.rpartition("_")[2] for name in plans] == ["c1", "c2", "c4", "c8", "c8", "c32"]
    (last,) = (plan for name, plan in plans.items() if name.endswith("c32"))
    assert last.workload.requests == 128
    assert last.argv[last.argv.index("--max-num-seqs") + 1] == "64"
    assert last.argv[last.argv.index("--speculative-tokens") + 1] == "3"
    assert last.origins["argv.--max-num-seqs"].layer.endswith("recipes/site.yaml")


def write_file(words: tuple[str, ...], text: str, folder: Path) -> None:
    """Write a block that is marked `file=NAME`."""
    for name in (word.removeprefix("file=") for word in words if word.startswith("file=")):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
