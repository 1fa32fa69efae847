"""Client and workload settings of a resolved plan: types, ranges, and rules between them.

The values come from recipe rules; who set a wrong one is the caller's knowledge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import ConfigDict

from inferometer.core import Arrival, ClientSettings, Replies, WorkloadSettings
from inferometer.plan.arrivals import arrival_faults
from inferometer.plan.fields import (
    Count,
    Fault,
    Flag,
    PositiveInt,
    Seed,
    Share,
    Strict,
    Text,
    expect,
    fit,
    is_number,
    one_of,
)

MOST_SECONDS = 1e9
"""30 years: what is longer has no room in nanoseconds of 64 bits, or is a slip."""
Seconds = Annotated[
    float,
    expect(
        "a number of seconds above 0, at most 1e9",
        lambda v: is_number(v) and 0 < v <= MOST_SECONDS,
    ),
]
Duration = Annotated[
    float,
    expect(
        "a number of seconds, 0 or more, at most 1e9",
        lambda v: is_number(v) and 0 <= v <= MOST_SECONDS,
    ),
]
Position = Annotated[float, expect("a number from 0 to 1", lambda v: is_number(v) and 0 <= v <= 1)]


# Source: RFC 9110, 5.6.2.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
HeaderName = Annotated[
    str,
    expect("an HTTP header name", lambda v: isinstance(v, str) and bool(_TOKEN.fullmatch(v))),
]


Rate = Annotated[
    float,
    expect("a number above 0, from 1e-9 to 1e9", lambda v: is_number(v) and 1e-9 <= v <= 1e9),
]
Steps = Annotated[int, expect("an integer of 2 or more", lambda v: type(v) is int and v >= 2)]


class _Settings(Strict):
    # Settings are named as the fields of the plan are.
    model_config = ConfigDict(alias_generator=None)


class Client(_Settings):
    """Mirrors `core.ClientSettings`."""

    endpoint: Annotated[Literal["chat", "completions"], one_of("chat", "completions")]
    connect_timeout_s: Seconds
    first_byte_timeout_s: Seconds
    between_bytes_timeout_s: Seconds
    total_timeout_s: Seconds
    usage_every_chunk: Flag
    ignore_eos: Flag
    temperature: Annotated[
        float, expect("a number of 0 or more", lambda v: is_number(v) and v >= 0)
    ]
    affinity_header: HeaderName | None
    stop_failed_share: Share
    grace_s: Duration
    keep_alive_s: Duration


class Workload(_Settings):
    """Mirrors `core.WorkloadSettings`. `sessions` may be null: who runs the point may name them."""

    kind: Annotated[Literal["fixed", "agentic"], one_of("fixed", "agentic")]
    duration_s: Seconds | None
    requests: PositiveInt | None
    seed: Seed
    isl: PositiveInt | None
    osl: PositiveInt | None
    length_ratio: Share
    sessions: Text | None
    sessions_digest: Text | None
    replay_rules: Annotated[Literal["none", "agentx-1"], one_of("none", "agentx-1")]
    warmup_requests_per_lane: Count
    warmup_grace_s: Duration
    start_min_share: Position
    start_max_share: Position
    tree_idle_cap_s: Duration
    system_idle_cap_s: Duration
    arrival: Annotated[Arrival, one_of(*get_args(Arrival))]
    rate: Rate | None
    burstiness: Rate
    rate_from: Duration | None
    rate_ramp_s: Seconds | None
    rate_ramp_steps: Steps | None
    cap_in_flight: Flag
    conc_from: PositiveInt | None
    conc_ramp_s: Seconds | None
    conc_ramp_steps: Steps | None
    tokenizer: Text
    tokenizer_digest: Text | None
    prompt_form: Annotated[Literal["text", "token_ids"], one_of("text", "token_ids")]
    prompt_rules: Annotated[Literal["blocks-2"], one_of("blocks-2")]
    replies: Annotated[Replies, one_of(*get_args(Replies))]

    def faults(self) -> Iterator[Fault]:
        yield from arrival_faults(self)
        if (self.duration_s is None) == (self.requests is None):
            yield Fault(("duration_s",), "set one of duration_s and requests, null the other")
        if self.start_min_share > self.start_max_share:
            yield Fault(("start_min_share",), f"is above start_max_share, {self.start_max_share}")
        if self.kind == "fixed" and (self.isl is None or self.osl is None):
            yield Fault(("isl",), "a fixed workload needs isl and osl")
        if self.prompt_form == "token_ids" and self.tokenizer == "words":
            yield Fault(("prompt_form",), "token ids need a tokenizer: a path, or bundled")
        if self.replies == "live" and self.kind == "fixed":
            text = "no later turn in fixed lengths; live goes with sessions: --workload, or agentic"
            yield Fault(("replies",), f"{text} points")
        if self.replies == "live" and self.prompt_form == "token_ids":
            text = "an answer comes as text, so live prompts are text, not token ids"
            yield Fault(("replies",), text)


class Checked(NamedTuple):
    """The settings, or the faults that keep them from being any."""

    client: ClientSettings | None
    workload: WorkloadSettings | None
    faults: tuple[Fault, ...]


def check_settings(client: Mapping[str, Any], workload: Mapping[str, Any]) -> Checked:
    """Values by field name. Fault paths are ("client" or "workload", field)."""
    given = (_exact(client), _exact(workload))
    try:
        hash(given)
    except TypeError:
        # A list where a single value belongs: the fault is found all the same.
        return _checked(*given)
    return _known(*given)


_Exact = tuple[tuple[str, type, Any], ...]


def _exact(values: Mapping[str, Any]) -> _Exact:
    """Values that equal no others: 1, 1.0 and true are three."""
    return tuple((name, type(value), value) for name, value in values.items())


@lru_cache(maxsize=4096)
def _known(client: _Exact, workload: _Exact) -> Checked:
    """Points of many deployments are loaded alike, so few settings are checked twice."""
    return _checked(client, workload)


def _checked(client: _Exact, workload: _Exact) -> Checked:
    sent, client_faults = fit(Client, {name: value for name, _, value in client})
    work, workload_faults = fit(Workload, {name: value for name, _, value in workload})
    faults = [Fault(("client", *path), message) for path, message in client_faults]
    faults += [Fault(("workload", *path), message) for path, message in workload_faults]
    if sent and work and work.prompt_form == "token_ids" and sent.endpoint == "chat":
        text = "only the completions endpoint takes token ids"
        faults.append(Fault(("workload", "prompt_form"), text))
    return Checked(
        ClientSettings(**sent.model_dump()) if sent and not faults else None,
        WorkloadSettings(**work.model_dump()) if work and not faults else None,
        tuple(faults),
    )
