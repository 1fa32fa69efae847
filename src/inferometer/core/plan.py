"""The exact launch of a point: what is started, how it is loaded, and which rule set each value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


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
    # What was planned before these existed had these values.
    tokenizer: str = "words"
    """Whose tokens prompts are counted in: a path, `bundled`, or `words` for a word a token."""
    tokenizer_digest: str | None = None
    """SHA-256 over the tokenizer's files, so that another tokenizer is another point."""
    prompt_form: Literal["text", "token_ids"] = "text"
    prompt_rules: str = "words-1"
    """Version of the rule from block ids to what is sent."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Everything that can move a number, resolved. `origins` maps `argv.--flag`, `env.NAME`,
    `client.field`, `workload.field` to the rule that set it.
    """

    image: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    files: Mapping[str, str]
    router: RouterPlan | None
    client: ClientSettings
    workload: WorkloadSettings
    origins: Mapping[str, Origin]
