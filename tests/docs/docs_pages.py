"""The pages as data: links, anchors, tables, fenced blocks, and the commands in them. No test."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from inferometer.cli.main import cli
from inferometer.engine.simulated.options import parse_options

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.glob("*.md")))

_FENCE = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
_FILE = re.compile(r"(?!recipes/)[a-z_]+/[a-z_/]+\.(?:py|yaml)(?::\w+)?")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: the words after its fence, and its text."""

    words: tuple[str, ...]
    text: str


def blocks(page: str) -> list[Block]:
    """Every fenced block, its indentation taken off."""
    found = []
    for indent, words, text in _FENCE.findall(page):
        lines = (line.removeprefix(indent) for line in text.splitlines())
        found.append(Block(tuple(words.split()), "\n".join(lines)))
    return found


def prose(page: str) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", page)


def code_spans(page: str) -> list[str]:
    """What stands between single backticks, in order."""
    return _CODE.findall(prose(page))


def anchors(page: str) -> set[str]:
    """The anchors that GitHub gives the headings."""
    names = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(prose(page)))
    return {name.replace(" ", "-") for name in names}


def dead_links(page: Path, text: str) -> list[str]:
    """Relative links of a page whose file or anchor does not exist."""
    dead = []
    for link in _LINK.findall(prose(text)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.is_file():
            dead.append(link)
        elif anchor:
            known = anchors(text if target == page else target.read_text(encoding="utf-8"))
            dead += [link] if anchor not in known else []
    return dead


def section(page: str, heading: str) -> str:
    """The text under a heading, up to the next heading of any level."""
    match = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", page, re.MULTILINE | re.DOTALL)
    assert match, f"no heading {heading!r}"
    return match[1]


def rows(text: str) -> list[list[str]]:
    """The cells of every table row, head and rule left out."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rules = {n for n, row in enumerate(cells) if all(re.fullmatch(r":?-+:?", c) for c in row)}
    return [row for n, row in enumerate(cells) if n not in rules and n + 1 not in rules]


def first_names(text: str) -> list[str]:
    """Every name in backticks in the first column of the tables of a text."""
    return [name for row in rows(text) for name in _CODE.findall(row[0])]


def commands(page: str) -> list[list[str]]:
    """The words of every `inferometer ...` command in the page's bash blocks."""
    found = []
    for block in blocks(page):
        if block.words[:1] == ("bash",):
            found += [words for words in command_words(block.text) if words[0] == "inferometer"]
    return found


def command_words(text: str) -> Iterator[list[str]]:
    """The words of each command of a block, without what a pipe passes it on to."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|>&;")
        lexer.whitespace_split = True
        words = list(lexer)
        stops = (n for n, word in enumerate(words) if set(word) <= set("|>&;"))
        if words:
            yield words[: next(stops, len(words))]


def parse(words: list[str]) -> None:
    """Parse a command as the command line would, and do nothing. Raises its errors."""
    command: click.Command = cli
    context = click.Context(cli, info_name=words[0])
    rest = words[1:]
    while isinstance(command, click.Group):
        if not rest:
            raise click.UsageError("no verb")
        _, verb, rest = command.resolve_command(context, rest)
        assert verb is not None
        command = verb
    if command.name == "simulated":
        parse_options(rest)
    else:
        command.make_context(command.name, list(rest), parent=context)


def named_files(page: str) -> list[str]:
    """`path/file.py` and `path/file.py:function` in backticks; not a user's `recipes/...`."""
    return [span for span in code_spans(page) if _FILE.fullmatch(span)]
