"""The exact launch of a point: what is started, how it is loaded, and which rule set each value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from inferometer.core.deployment import (
    DeploymentSettings,
    ExternalFile,
    RoleLaunch,
    SideProcess,
)

Replies = Literal["canned", "live"]
Arrival = Literal["closed", "constant", "poisson", "gamma", "timestamps", "burst"]


@dataclass(frozen=True, slots=True)
class Origin:
    """The rule that set one value: layer file, line, condition, and the expression as written."""

    layer: str
    line: int | None
    when: str | None
    expression: str | None


@dataclass(frozen=True, slots=True)
class RouterPlan:
    """A router in front of the engine. `argv` empty: named by the config, started by the engine."""

    name: str
    version: str
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How requests are sent. All of it can move a number, so all of it is part of the digest."""

    endpoint: Literal["chat", "completions"]
    connect_timeout_s: float
    first_byte_timeout_s: float
    between_bytes_timeout_s: float
    total_timeout_s: float
    usage_every_chunk: bool
    ignore_eos: bool
    temperature: float
    affinity_header: str | None
    stop_failed_share: float
    """Live share of failed requests above which the point is stopped."""
    grace_s: float
    """After the window, how long requests already sent are followed."""
    keep_alive_s: float = 4.0
    """How long an idle connection may wait for its next request; 0: each request has its own.
    Servers on uvicorn close idle ones after 5 s: sending into that moment must not happen.
    """


@dataclass(frozen=True, slots=True)
class WorkloadSettings:
    """What is sent, for how long. Exactly one of `duration_s` and `requests` is set."""

    kind: Literal["fixed", "agentic"]
    duration_s: float | None
    requests: int | None
    seed: int
    isl: int | None
    osl: int | None
    length_ratio: float
    """Fixed lengths are drawn uniformly from [ratio · L, L]; 1.0 is exact, InferenceX has 0.8."""
    sessions: str | None
    """Where agentic sessions come from: a path, or `synthetic:NAME` for the generator."""
    sessions_digest: str | None
    """SHA-256 over the session files, so that other data is another point."""
    replay_rules: str
    warmup_requests_per_lane: int
    warmup_grace_s: float
    start_min_share: float
    start_max_share: float
    tree_idle_cap_s: float
    system_idle_cap_s: float
    # The defaults are a closed loop: what a plan from before there were arrivals was.
    arrival: Arrival = "closed"
    """When sessions begin; `gamma` has `burstiness`, `timestamps` are the sessions' own."""
    rate: float | None = None
    """Arrivals a second, after a ramp."""
    burstiness: float = 1.0
    """Shape of the gaps: 1 is Poisson, below comes in bursts."""
    rate_from: float | None = None
    rate_ramp_s: float | None = None
    rate_ramp_steps: int | None = None
    """Levels of the ramp; None is a straight line."""
    cap_in_flight: bool = False
    """An arrival waits while as many sessions as the point's concurrency are under way."""
    conc_from: int | None = None
    conc_ramp_s: float | None = None
    conc_ramp_steps: int | None = None
    # What was planned before these existed had these values.
    tokenizer: str = "words"
    """Whose tokens prompts are counted in: a path, `bundled`, or `words` for a word a token."""
    tokenizer_digest: str | None = None
    """SHA-256 over the tokenizer's files, so that another tokenizer is another point."""
    prompt_form: Literal["text", "token_ids"] = "text"
    prompt_rules: str = "words-1"
    """Version of the rule from block ids to what is sent."""
    replies: Replies = "canned"
    """Whose answers later turns repeat: the recorded ones, or those that really came."""

    @property
    def open_loop(self) -> bool:
        """Sessions arrive by a schedule, whatever is open."""
        return self.arrival != "closed"


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Everything that can move a number, resolved. `origins` maps `argv.--flag`, `env.NAME`,
    `client.field`, `workload.field` to the rule that set it.

    An engine on one node: `argv` and what is beside it. A deployment of several roles: no `argv`
    but `launches`, workers first, and their origins under the launch's name
    (`prefill_0.argv.--flag`). An `external` plan has neither. `side` is started before all of them.
    """

    image: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    files: Mapping[str, str]
    router: RouterPlan | None
    client: ClientSettings
    workload: WorkloadSettings
    origins: Mapping[str, Origin]
    side: tuple[SideProcess, ...] = ()
    launches: tuple[RoleLaunch, ...] = ()
    external: ExternalFile | None = None
    settings: DeploymentSettings | None = None
    require_power: Literal["native"] | None = None
    """`native`: without power that the nodes' own sensors measured the point is no result."""

    @property
    def kind(self) -> Literal["single-node", "multi-node", "external"]:
        """What is started: one engine, several roles, or what a file elsewhere says."""
        if self.external is not None:
            return "external"
        return "multi-node" if self.launches else "single-node"
