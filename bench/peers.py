"""The same load by this client and by others, against a server that knows the truth, side by side.

Closed loop, three requests a stream, of `ttft=500+itl=20+n=300+jit=0.5`, with 64 and then 256
streams; then one-token requests as fast as 64 streams go. Each tool runs in its own environment and
is left out, with the reason, where it is not given. Tools take turns within a round; figures are
medians over the rounds. Needs a C compiler (or the compiled truthserver) and Linux.

    python bench/peers.py --source truthserver.c --tokenizer FOLDER \\
        --aiperf AIPERF --guidellm GUIDELLM --vllm VLLM --rounds 3 -o results.json
    python bench/peers.py --source truthserver.c --only inferometer --short-only --short 1000000 \\
        --rounds 1 --timeout 1800
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import signal
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from peer_commands import TOOLS, Asked, Tool
from peer_process import Spent, watched
from peer_tables import lines_of, markdown_of
from rich.console import Console
from truth_accuracy import build, truthserver

import inferometer

MODEL = "ttft=500+itl=20+n=300+jit=0.5"
SHORT_MODEL = "ttft=1+n=1"
SHORT = "short"
OWN = "inferometer"
NS = 1e9
MS = 1e-3
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Truths:
    """The server's log: true TTFT of each answered request in s, by id and in all."""

    by_id: dict[str, float]
    """By the id that the tool sent, and by the one that the answer had."""
    ttft_s: list[float]
    chunks: int
    begun_ns: list[int]
    """When each whole request had come, in order."""
    ended_ns: int
    """The last answer's end."""

    def rate(self, asked: int) -> float:
        """Requests a second. What came before the load, to see whether somebody answers, is none
        of it.
        """
        load = self.begun_ns[max(0, len(self.begun_ns) - asked) :]
        return len(load) * NS / max(1, self.ended_ns - load[0])


@dataclass(frozen=True, slots=True)
class Figures:
    """One run of one tool. Errors are reported minus true, ms; None where the tool said nothing.

    `matched`: error of each request, told apart by its id; else value by value of the two sorted
    lists, which cannot be more than the errors of requests, and may be less.
    """

    asked: int
    requests: int
    """That the server answered."""
    reported: int
    """Of which the tool tells a TTFT."""
    chunks: int
    cpu_s: float
    peak_bytes: float
    wall_s: float
    requests_per_s: float
    error_p50_ms: float | None
    error_p99_ms: float | None
    matched: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """A tool that did not come to figures, and why."""

    why: str


def main() -> None:
    """Build, drive, compare, print, keep."""
    options = parse_arguments()
    # A tool under way must not outlive this.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    console = Console(stderr=True)
    # The others were installed, and have their bytecode; a checkout need not have.
    compileall.compile_dir(Path(inferometer.__file__).parent, quiet=2)
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        binary = options.server or build(options.source, Path(folder))
        tools = present(options, console)
        found = rounds_of(tools, binary, Path(folder), options, console)
    summary = {tool.name: summed(found[tool.name], options) for tool in tools}
    if OWN in found:
        for name, rounds in found.items():
            summary[name] |= beside_own(found[OWN], rounds, options)
    title = f"{options.model}, medians of {options.rounds} rounds"
    for line in (markdown_of if options.markdown else lines_of)(title, summary):
        print(line)
    if options.output:
        kept = {name: [plain(round_) for round_ in each] for name, each in found.items()}
        text = json.dumps({"model": options.model, "summary": summary, "rounds": kept}, indent=2)
        options.output.write_text(text + "\n", "utf-8")


def parse_arguments() -> argparse.Namespace:
    """Command line; the environment may name what a machine has: INFEROMETER_BENCH_AIPERF, ..."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--source", type=Path, default=_known("source"), help="truthserver.c")
    add("--server", type=Path, default=_known("server"), help="the truthserver, compiled")
    add("--tokenizer", type=Path, default=_known("tokenizer"), help="a tokenizer, for the peers")
    for name in ("aiperf", "guidellm", "vllm"):
        add(f"--{name}", type=Path, default=_known(name), help=f"the executable of {name}")
    add("--model", default=MODEL, help="the server's plan of a stream")
    add("--streams", type=int, nargs=2, default=(64, 256), help="closed-loop streams, few and many")
    add("--requests", type=int, default=3, help="requests a stream")
    add("--short", type=int, default=2000, help="one-token requests; 0: none")
    add("--short-only", action="store_true", help="one-token requests alone")
    add("--rounds", type=int, default=3, help="medians are over these")
    add("--timeout", type=float, default=600.0, help="seconds that a tool may take")
    add("--only", nargs="+", choices=[tool.name for tool in TOOLS], help="these tools alone")
    add("--markdown", action="store_true", help="print the table as one of a page")
    add("-o", "--output", type=Path, help="every figure, as JSON")
    options = parser.parse_args()
    if options.server is None and options.source is None:
        sys.exit("skipped: no truthserver; name its source with --source, or the binary, --server")
    return options


def _known(name: str) -> Path | None:
    text = os.environ.get(f"INFEROMETER_BENCH_{name.upper()}")
    return Path(text) if text else None


def present(options: argparse.Namespace, console: Console) -> list[Tool]:
    """The tools that can run here; why not, of the others."""
    tools = []
    for tool in TOOLS:
        if options.only and tool.name not in options.only:
            continue
        if (why := tool.absent(options)) is None:
            tools.append(tool)
        else:
            console.print(f"{tool.name}: skipped: {why}", markup=False)
    return tools


Round = dict[str, "Figures | Failed"]
"""By the number of streams, or `short`."""


def rounds_of(
    tools: Sequence[Tool],
    binary: Path,
    folder: Path,
    options: argparse.Namespace,
    console: Console,
) -> dict[str, list[Round]]:
    """Every round of every tool, in turn, so that what the machine does meets them all."""
    found: dict[str, list[Round]] = {tool.name: [] for tool in tools}
    for number in range(options.rounds):
        for tool in tools:
            done: Round = {}
            for load in loads(options):
                console.print(f"round {number + 1}: {tool.name}, {load[0]}", style="dim")
                with tempfile.TemporaryDirectory(dir=folder) as place:
                    done[load[0]] = one(tool, binary, Path(place), load, options)
                if isinstance(failed := done[load[0]], Failed):
                    console.print(f"{tool.name}: {failed.why}", markup=False)
            found[tool.name].append(done)
    return found


Load = tuple[str, str, int, int]
"""Its name, the server's plan, streams, requests in all."""


def loads(options: argparse.Namespace) -> list[Load]:
    """What each tool carries in a round."""
    each: list[Load] = [
        (str(streams), options.model, streams, streams * options.requests)
        for streams in (() if options.short_only else options.streams)
    ]
    if options.short:
        each.append((SHORT, SHORT_MODEL, min(64, options.short), options.short))
    return each


def one(
    tool: Tool, binary: Path, place: Path, load: Load, options: argparse.Namespace
) -> Figures | Failed:
    """One load by one tool."""
    _, model, streams, requests = load
    log = place / "truth.csv"
    with truthserver(binary, log) as url:
        asked = Asked(url, model, streams, requests, place, options.tokenizer)
        spent = watched(tool.command(options, asked), place, options.timeout)
    if spent.why is not None:
        return Failed(spent.why)
    try:
        reported = tool.reported(asked)
    except (OSError, ValueError, KeyError, IndexError) as error:
        return Failed(f"its report cannot be read: {type(error).__name__}: {error}; {spent.tail}")
    truths = read_truths(log)
    if not truths.ttft_s:
        return Failed(f"no request reached the server: {spent.tail}")
    return figures(requests, spent, truths, reported)


def figures(asked: int, spent: Spent, truths: Truths, reported: dict[str, float]) -> Figures:
    """What a run came to. `reported` is TTFT in s by request id, or by any other name."""
    errors, matched = errors_s(truths, reported)
    known = len(errors) > 0
    return Figures(
        asked=asked,
        requests=len(truths.ttft_s),
        reported=len(reported),
        chunks=truths.chunks,
        cpu_s=spent.cpu_s,
        peak_bytes=spent.peak_bytes,
        wall_s=spent.wall_s,
        requests_per_s=truths.rate(asked),
        error_p50_ms=float(np.percentile(errors, 50)) / MS if known else None,
        error_p99_ms=_worst_percentile(errors) / MS if known else None,
        matched=matched,
    )


def errors_s(truths: Truths, reported: dict[str, float]) -> tuple[Floats, bool]:
    """Reported minus true TTFT, s, and whether requests were told apart by their ids."""
    if reported and reported.keys() <= truths.by_id.keys():
        errors = [value - truths.by_id[name] for name, value in reported.items()]
        return np.array(errors), True
    told, true = np.sort(list(reported.values())), np.sort(truths.ttft_s)
    if not len(told) or not len(true):
        return np.zeros(0), False
    # A tool may have sent a request of its own before the load: the lists may differ in length.
    shares = np.linspace(0.0, 100.0, len(told))
    return told - np.percentile(true, shares), False


def _worst_percentile(errors: Floats) -> float:
    """The error that 99 % are nearer to 0 than, with its sign."""
    order = np.argsort(np.abs(errors))
    return float(errors[order[int(0.99 * (len(errors) - 1))]])


def read_truths(log: Path) -> Truths:
    """The log of the server; a stream without a token is none."""
    by_id, ttft_s, chunks = {}, [], 0
    begun, ended = [], []
    for line in log.read_text().splitlines()[1:]:
        number, name, _, _, request_ns, stamps, end_ns = line.split(",")
        if not stamps:
            continue
        first = stamps.partition(";")[0]
        value = (int(first) - int(request_ns)) / NS
        ttft_s.append(value)
        chunks += stamps.count(";") + 1
        begun.append(int(request_ns))
        ended.append(int(end_ns or stamps.rpartition(";")[2]))
        by_id[f"t{number}"] = value
        if name:
            by_id[name] = value
    return Truths(by_id, ttft_s, chunks, sorted(begun), max(ended, default=0))


def plain(round_: Round) -> dict[str, Any]:
    """A round as JSON takes it."""
    return {name: asdict(each) for name, each in round_.items()}


def summed(rounds: Sequence[Round], options: argparse.Namespace) -> dict[str, float | None]:
    """Medians by name; None where no round has the figure."""
    few, many = (str(count) for count in options.streams)
    values: dict[str, list[float | None]] = {}

    def add(name: str, value: float | None) -> None:
        values.setdefault(name, []).append(value)

    for round_ in rounds:
        for name in (few, many):
            done = round_.get(name)
            if isinstance(done, Figures):
                add(f"TTFT error p50, {name} streams, ms", done.error_p50_ms)
                add(f"TTFT error p99, {name} streams, ms", done.error_p99_ms)
                add(f"CPU a chunk in all, {name} streams, us", done.cpu_s * 1e6 / done.chunks)
                add(f"peak memory, {name} streams, MB", done.peak_bytes / 1e6)
        slope_s = slope_of(round_, options)
        one_ = round_.get(few)
        if slope_s is not None and isinstance(one_, Figures):
            add("CPU a chunk, slope, us", slope_s * 1e6)
            add("fixed CPU, s", one_.cpu_s - slope_s * one_.chunks)
        short = round_.get(SHORT)
        if isinstance(short, Figures):
            add("one-token requests a second", short.requests_per_s)
            add("one-token requests, CPU of each, us", short.cpu_s * 1e6 / short.requests)
            add("one-token requests, served - asked", float(short.requests - short.asked))
            add("one-token requests, told - served", float(short.reported - short.requests))
    return {name: _median(each) for name, each in values.items()}


def slope_of(round_: Round, options: argparse.Namespace) -> float | None:
    """CPU seconds of a further chunk, from the few streams to the many."""
    one_, other = (round_.get(str(count)) for count in options.streams)
    if not (isinstance(one_, Figures) and isinstance(other, Figures)):
        return None
    return (other.cpu_s - one_.cpu_s) / max(1, other.chunks - one_.chunks)


def beside_own(
    own: Sequence[Round], theirs: Sequence[Round], options: argparse.Namespace
) -> dict[str, float | None]:
    """This client against another, round by round: medians of ratios."""
    slopes: list[float | None] = []
    rates: list[float | None] = []
    for mine, other in zip(own, theirs, strict=True):
        slope_s, other_s = slope_of(mine, options), slope_of(other, options)
        slopes.append(slope_s / other_s if slope_s and other_s else None)
        short, its = mine.get(SHORT), other.get(SHORT)
        if isinstance(short, Figures) and isinstance(its, Figures):
            rates.append(short.requests_per_s / its.requests_per_s)
    return {
        f"CPU a chunk of {OWN} / of this": _median(slopes),
        f"one-token rate of {OWN} / of this": _median(rates),
    }


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


if __name__ == "__main__":
    main()
