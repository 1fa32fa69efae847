"""One request inside the scheduler, its speculative draws, and the log of step end times.

A sequence in decode gets tokens at every step, so its token times are runs of the one log, cut out
when it ends; nothing is written per token.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np
import numpy.typing as npt

from inferometer.core import Arrivals, Prompt
from inferometer.engine.simulated.prefix_cache import Hold


class State(Enum):
    """Where a sequence is. WAITING again after a preemption."""

    WAITING = auto()
    PREFILL = auto()
    DECODE = auto()
    DONE = auto()


@dataclass(slots=True, eq=False)
class Sequence:
    """Mutable state of one request; only the scheduler writes it."""

    id: str
    prompt: Prompt
    max_tokens: int
    arrival_ns: int
    accepted: npt.NDArray[np.int64] | None
    """int64[max_tokens + 1]: tokens of the first i decode steps together; None: one a step."""
    state: State = State.WAITING
    target: int = 0
    """Tokens to compute before the next token can be sampled: the prompt, and after a preemption
    what was generated too."""
    computed: int = 0
    """Tokens whose KV is in place."""
    generated: int = 0
    decoded: int = 0
    """Decode steps done."""
    chunk: int = 0
    """Prefill tokens in the step under way."""
    finish_step: int = 0
    """Step of the log at whose end the last token comes, while in DECODE."""
    hold: Hold | None = None
    capacity: int = 0
    """Tokens that the blocks of the hold have room for."""
    cached_tokens: int = 0
    """Prompt tokens found in the prefix cache at the first admission."""
    admitted_ns: int | None = None
    preemptions: int = 0
    run_start: int | None = None
    """First step of the log of the run of tokens under way."""
    runs: list[tuple[int, int]] = field(default_factory=list)
    """Steps [start, stop) of the log that gave tokens; the first of a run ends a prefill."""

    def steps_left(self) -> int:
        """Decode steps until max_tokens."""
        left = self.max_tokens - self.generated
        if self.accepted is None:
            return left
        return int(self.accepted.searchsorted(self.accepted[self.decoded] + left)) - self.decoded

    def tokens_in(self, steps: int) -> int:
        """Tokens that the next `steps` decode steps give, max_tokens not heeded."""
        if self.accepted is None:
            return steps
        return self.accepted.item(self.decoded + steps) - self.accepted.item(self.decoded)


class Acceptance:
    """How many tokens each decode step of a request gives under speculative decoding.

    A step gives 1 + (drafts accepted before the first refusal); each draft is accepted with the one
    probability p for which the mean 1 + p + ... + p^drafts is `mean`. The draws depend on seed and
    request id alone, so neither arrival order nor batch changes them.
    """

    def __init__(self, seed: int, drafts: int, mean: float) -> None:
        self._seed = seed
        self._drafts = drafts
        probability = acceptance_probability(drafts, mean)
        self._reach = probability ** np.arange(1, drafts + 1)  # of accepting i drafts or more

    def draw(self, request_id: str, steps: int) -> npt.NDArray[np.int64] | None:
        """int64[steps + 1]: tokens of the first i steps together; None without drafts."""
        if self._drafts == 0:
            return None
        name = f"{self._seed}:{request_id}".encode()
        digest = hashlib.blake2b(name, digest_size=8).digest()
        generator = np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))
        accepted = (generator.random((steps, 1)) < self._reach).sum(axis=1)
        total = np.zeros(steps + 1, dtype=np.int64)
        np.cumsum(1 + accepted, out=total[1:])
        return total


def acceptance_probability(drafts: int, mean: float) -> float:
    """The p in [0, 1] with 1 + p + ... + p^drafts = mean, by bisection to 1e-12."""
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        if sum(middle**power for power in range(drafts + 1)) < mean:
            low = middle
        else:
            high = middle
    return (low + high) / 2


class StepLog:
    """End times of all steps, by absolute step number; old ones are forgotten on request."""

    def __init__(self) -> None:
        self._ends = np.empty(1024, dtype=np.int64)
        self._first = 0
        self._stored = 0

    def __len__(self) -> int:
        """Steps ever logged: the number of the next one."""
        return self._first + self._stored

    @property
    def full(self) -> bool:
        """Whether the next append must move the log: the time to forget."""
        return self._stored + 1 > len(self._ends)

    @property
    def last_ns(self) -> int:
        """End of the latest step; 0 before the first."""
        return int(self._ends[self._stored - 1]) if self._stored else 0

    def append(self, ends_ns: npt.NDArray[np.int64]) -> None:
        """Add int64[n] end times."""
        need = self._stored + len(ends_ns)
        if need > len(self._ends):
            grown = np.empty(2 * need, dtype=np.int64)
            grown[: self._stored] = self._ends[: self._stored]
            self._ends = grown
        self._ends[self._stored : need] = ends_ns
        self._stored = need

    def forget(self, before: int) -> None:
        """Drop the steps below `before`."""
        drop = min(before - self._first, self._stored - 1)
        if drop > 0:
            self._ends[: self._stored - drop] = self._ends[drop : self._stored].copy()
            self._first += drop
            self._stored -= drop

    def arrivals(self, sequence: Sequence) -> Arrivals:
        """Token times and counts of a sequence: one event for each step that gave it tokens."""
        at = [self._ends[a - self._first : b - self._first] for a, b in sequence.runs]
        times = np.concatenate(at) if at else np.empty(0, dtype=np.int64)
        return Arrivals(times, event_tokens(sequence), np.zeros(len(times), dtype=np.bool_))


def event_tokens(sequence: Sequence) -> npt.NDArray[np.int32]:
    """int32[events]: tokens of each event; the last is cut so that they sum to `generated`."""
    events = sum(stop - start for start, stop in sequence.runs)
    counts = np.ones(events, dtype=np.int32)
    if sequence.accepted is not None and events:
        steps = np.diff(sequence.accepted[: sequence.decoded + 1])
        position, decoded = 0, 0
        for start, stop in sequence.runs:
            decodes = stop - start - 1
            counts[position + 1 : position + 1 + decodes] = steps[decoded : decoded + decodes]
            position, decoded = position + 1 + decodes, decoded + decodes
        counts[-1] -= int(counts.sum()) - sequence.generated
    return counts
