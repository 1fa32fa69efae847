"""Options that say when sessions arrive, and what they should meet: for `bench` and `predict`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

F = TypeVar("F", bound=Callable[..., Any])

RATED = ("constant", "poisson", "gamma")
UNCAPPED_LANES = 256
"""Sequences that an engine should admit where neither a cap nor a config says: what engines do by
default. It holds nothing back."""


class RampOption(click.ParamType["Ramp"]):
    """FROM:TO:SECONDS or FROM:TO:SECONDS:LEVELS."""

    name = "FROM:TO:S[:LEVELS]"

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Ramp:
        """Text to a ramp, refusing what is none."""
        if isinstance(value, Ramp):
            return value
        words = str(value).split(":")
        try:
            first, last, seconds = (float(word) for word in words[:3])
            steps = int(words[3]) if len(words) == 4 else None
        except ValueError:
            words = []
        example = "1:64:30" if self._whole else "1:20:60 or 1:20:60:5"
        if len(words) not in (3, 4) or not all(map(math.isfinite, (first, last, seconds))):
            self.fail(f"{value!r} is no ramp such as {example}", param, ctx)
        if self._whole and (first != int(first) or last != int(last) or first < 1):
            self.fail(f"{value!r}: lanes are positive integers, as in {example}", param, ctx)
        if first < 0 or last <= 0 or seconds <= 0:
            self.fail(f"{value!r}: only FROM may be 0, and nothing below it", param, ctx)
        if self._whole and first > last:
            self.fail(f"{value!r}: lanes only join; FROM is at most TO", param, ctx)
        if steps is not None and steps < 2:
            self.fail(f"{value!r}: a ramp has 2 levels or more", param, ctx)
        return Ramp(first, last, seconds, steps)


class Ramp(NamedTuple):
    """From, to, over seconds, in levels (None: a straight line)."""

    first: float
    last: float
    seconds: float
    steps: int | None


slo_option = click.option(
    "--slo",
    "slos",
    multiple=True,
    metavar="METRIC:BOUND",
    help="Bound that a good request meets, e.g. ttft:500ms, tpot:20ms, itl_p99:50ms, "
    "chunk_gap_max:1s, intvty:30; goodput counts those that meet all (docs/metrics.md).",
)


def arrival_options(command: F) -> F:
    """All of them, as keyword arguments for `arrival_settings` and `parse_slos`."""
    for option in (
        slo_option,
        click.option(
            "--ramp-concurrency",
            type=RampOption(whole=True),
            help="Lanes join along a ramp, e.g. 1:64:30, before the window opens.",
        ),
        click.option(
            "--ramp-rate",
            type=RampOption(whole=False),
            help="Open loop at a rate that goes from one to another, e.g. 1:20:60, in levels if "
            "there is a fourth number.",
        ),
        click.option(
            "--timestamps", is_flag=True, help="Open loop at the times the sessions have."
        ),
        click.option(
            "--burstiness",
            type=click.FloatRange(min=0, min_open=True),
            help="Of gamma arrivals: 1 is Poisson, below comes in bursts.",
        ),
        click.option(
            "--arrival",
            type=click.Choice([*RATED, "burst"]),
            help="Open loop: how arrivals come [poisson; gamma with --burstiness]. burst: all at "
            "once.",
        ),
        click.option(
            "--rate",
            type=click.FloatRange(min=0, min_open=True),
            help="Open loop: arrivals a second, whatever is open. With --concurrency at most that "
            "many at a time; the rest waits, and its wait counts.",
        ),
    ):
        command = option(command)
    return command


def arrival_settings(
    rate: float | None,
    arrival: str | None,
    burstiness: float | None,
    timestamps: bool,
    ramp_rate: Ramp | None,
    ramp_concurrency: Ramp | None,
) -> dict[str, object]:
    """The workload settings that the options set. UsageError where they contradict each other."""
    _refuse_contradictions(rate, arrival, burstiness, timestamps, ramp_rate)
    settings: dict[str, object] = {}
    if ramp_concurrency is not None:
        settings |= {
            "conc_from": int(ramp_concurrency.first),
            "conc_ramp_s": ramp_concurrency.seconds,
            "conc_ramp_steps": ramp_concurrency.steps,
        }
    paced = rate is not None or ramp_rate is not None
    if timestamps:
        arrival = "timestamps"
    elif arrival is None and paced:
        arrival = "poisson" if burstiness is None else "gamma"
    if arrival is None:
        return settings
    settings |= {"arrival": arrival, "rate": rate, "burstiness": burstiness}
    if ramp_rate is not None:
        settings |= {
            "rate": ramp_rate.last,
            "rate_from": ramp_rate.first,
            "rate_ramp_s": ramp_rate.seconds,
            "rate_ramp_steps": ramp_rate.steps,
        }
    settings["cap_in_flight"] = _typed("concurrency")
    return settings


def _refuse_contradictions(
    rate: float | None,
    arrival: str | None,
    burstiness: float | None,
    timestamps: bool,
    ramp_rate: Ramp | None,
) -> None:
    if rate is not None and ramp_rate is not None:
        raise click.UsageError("--ramp-rate says the rate; leave out --rate")
    paced = rate is not None or ramp_rate is not None
    if paced and (timestamps or arrival == "burst"):
        other = "--timestamps" if timestamps else "--arrival burst"
        raise click.UsageError(f"{other} and a rate exclude each other")
    if timestamps and arrival is not None:
        raise click.UsageError("--timestamps and --arrival exclude each other")
    if arrival in RATED and not paced:
        raise click.UsageError(f"--arrival {arrival} needs --rate or --ramp-rate")
    if burstiness is not None and (not paced or arrival not in (None, "gamma")):
        raise click.UsageError("--burstiness goes only with gamma arrivals at a rate")


def concurrencies(
    typed: tuple[int, ...], settings: dict[str, object], ramp: Ramp | None
) -> tuple[int, ...]:
    """One point each: those of the command line, or what arrivals and a ramp come to."""
    if ramp is not None:
        if _typed("concurrency"):
            raise click.UsageError("--ramp-concurrency says the concurrency; leave it out")
        return (int(ramp.last),)
    if "arrival" in settings and not _typed("concurrency"):
        return (UNCAPPED_LANES,)
    return typed


def _typed(name: str) -> bool:
    context = click.get_current_context()
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE
