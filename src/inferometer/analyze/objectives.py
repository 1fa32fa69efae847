"""Objectives (SLOs) as they are typed: a bound on a metric that one request has.

Names, aliases, units and the side of each bound; holds nothing against anything. A bound is kept in
s, tok/s, tokens or as a share; whether it is a least or a most one is the metric's nature.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from inferometer.core import Slo
from inferometer.errors import InputError, Problem, nearest

STATISTICS = ("mean", "p50", "p75", "p90", "p95", "p99", "max")
"""Of what happens several times in a request: its chunk gaps, its ITL."""
REPEATED = ("chunk_gap", "itl")
GAPS = tuple(f"{name}_{statistic}" for name in REPEATED for statistic in STATISTICS)
ONCE = ("ttft", "ttft_scheduled", "ttfv", "e2el", "e2el_scheduled", "tpot")
CLIENT = ("schedule_lag", "cap_wait")
TIMES = (*ONCE, *GAPS, *CLIENT)
SPEEDS = ("intvty", "e2e_intvty", "input_speed")
"""Tokens a second that one user sees."""
COUNTS = ("output_tokens",)
SHARES = ("cached_share",)
AT_LEAST = (*SPEEDS, *COUNTS, *SHARES)
"""More is better, so the bound is a least one."""
SLO_METRICS = (*TIMES, *AT_LEAST)

TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "min": 60.0}
SPEED_UNITS = {"tok/s": 1.0, "tok/s/user": 1.0, "": 1.0}
COUNT_UNITS = {"tokens": 1.0, "tok": 1.0, "": 1.0}
SHARE_UNITS = {"%": 0.01, "": 1.0}


class Alias(NamedTuple):
    """What a name of another tool is here, and what its bare numbers are in."""

    metric: str
    unit: str


ALIASES = {
    "time_to_first_token": Alias("ttft", "ms"),
    "time_to_first_output_token": Alias("ttfv", "ms"),
    "request_latency": Alias("e2el", "ms"),
    "inter_token_latency": Alias("tpot", "ms"),
    "output_token_throughput_per_user": Alias("intvty", ""),
    "tps_user": Alias("intvty", ""),
    "output_token_throughput_per_request": Alias("e2e_intvty", ""),
    "e2e_output_token_throughput": Alias("e2e_intvty", ""),
    "prefill_throughput_per_user": Alias("input_speed", ""),
    "output_sequence_length": Alias("output_tokens", ""),
}
"""Of AIPerf and GenAI-Perf; vLLM's names are ours. What AIPerf calls the inter-token latency of a
request is (last - first token) / (tokens - 1), which is a `tpot` and no `itl`."""
EXAMPLE = "an objective is METRIC:BOUND, such as ttft:500ms, tpot:20ms or intvty:30tok/s"
_BOUND = re.compile(
    r"(?P<side><=|>=|≤|≥|<|>|=)?\s*"
    r"(?P<value>\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+)\s*(?P<unit>\D*)"
)
_NEXT = re.compile(r"[\s,]+(?=[A-Za-z_][\w-]*\s*:)")
_OF_MANY = re.compile(r"(?P<metric>.+)_(?:mean|p\d+)(?:_s|_ms)?")
_IN_NAME = re.compile(r"(?P<metric>.+)_(?P<unit>s|ms|us)")


def parse_slos(texts: Sequence[str]) -> tuple[Slo, ...]:
    """Objectives as typed; a text may hold several, parted by spaces or commas.

    InputError has every problem of all of them.
    """
    found: dict[str, Slo] = {}
    problems = []
    for text in _parted(texts):
        try:
            slo = _parse(text)
        except ValueError as error:
            problems.append(Problem(str(error), "--slo", None, text))
            continue
        if slo.metric in found:
            problems.append(Problem(f"{slo.metric} has a bound already", "--slo", None, text))
        found.setdefault(slo.metric, slo)
    if problems:
        raise InputError(*problems)
    return tuple(found.values())


def told(slo: Slo) -> str:
    """An objective in words, e.g. `ttft <= 0.5 s`."""
    unit = {"": ""} if slo.metric in SHARES else _units(slo.metric)
    name = next(iter(unit))
    return f"{slo.metric} {_side(slo.metric)} {slo.bound:.12g} {name}".rstrip()


def _parted(texts: Sequence[str]) -> Iterator[str]:
    for text in texts:
        yield from _NEXT.split(text.strip())


def _parse(text: str) -> Slo:
    typed, colon, bound = (part.strip() for part in text.partition(":"))
    if not colon:
        raise ValueError(EXAMPLE)
    name, usual = _named(typed)
    match = _BOUND.fullmatch(bound)
    if match is None:
        quote = "" if bound else " (a shell takes > and < for itself: put the objective in quotes)"
        raise ValueError(f"{bound!r} is no bound{quote}; {EXAMPLE}")
    _check_side(name, match["side"], bound)
    value = float(match["value"]) * _factor(name, match["unit"].strip(), usual, bound)
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"a bound is above 0, got {bound!r}")
    if name in SHARES and value > 1:
        raise ValueError(f"{name} is a share, at most 1 or 100%; got {bound!r}")
    return Slo(name, value)


def _named(typed: str) -> tuple[str, str]:
    """The metric, and the unit of a bare number. ValueError names the nearest."""
    name = typed.lower().replace("-", "_")
    if name in SLO_METRICS:
        return name, ""
    if name in ALIASES:
        return ALIASES[name]
    united = _IN_NAME.fullmatch(name)
    if united is not None and united["metric"] in TIMES:
        return united["metric"], united["unit"]
    raise ValueError(f"no metric of a request is called {typed!r}{_hint(name)}")


def _hint(name: str) -> str:
    several = {"inter_chunk_latency": "chunk_gap"}.get(name, name)
    if several in REPEATED:
        names = ", ".join(f"{several}_{statistic}" for statistic in STATISTICS)
        return f": a request has many; there are {names}"
    many = _OF_MANY.fullmatch(name)
    if many is not None and many["metric"] in SLO_METRICS:
        return f", that is of many; did you mean {many['metric']!r}?"
    listed = [*ONCE, *(f"{each}_{'|'.join(STATISTICS)}" for each in REPEATED), *CLIENT, *AT_LEAST]
    return nearest(name, (*SLO_METRICS, *ALIASES)) or f"; there are {', '.join(listed)}"


def _side(name: str) -> str:
    return ">=" if name in AT_LEAST else "<="


def _check_side(name: str, typed: str | None, bound: str) -> None:
    """A bound on the wrong side would call the worst requests good."""
    side = _side(name)
    if typed in (None, side, {"<=": "≤", ">=": "≥"}[side]):
        return
    better, word = ("larger", "least") if side == ">=" else ("smaller", "most")
    rest = bound.removeprefix(typed or "").strip()
    raise ValueError(
        f"{name} is better the {better} it is, and its bound, at {word}, is met by itself: "
        f"write {name}:{side}{rest}"
    )


def _units(name: str) -> dict[str, float]:
    if name in TIMES:
        return TIME_UNITS
    if name in SPEEDS:
        return SPEED_UNITS
    return COUNT_UNITS if name in COUNTS else SHARE_UNITS


def _factor(name: str, typed: str, usual: str, bound: str) -> float:
    units, unit = _units(name), typed or usual
    if unit in units:
        return units[unit]
    got = repr(unit) if unit else "none"
    meant = f"; where others mean milliseconds, write {name}:{bound}ms" if not unit else ""
    listed = ", ".join(filter(None, units))
    raise ValueError(f"a bound of {name} has a unit of {listed}; got {got}{meant}")
