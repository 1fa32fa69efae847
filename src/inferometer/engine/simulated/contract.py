"""What passes between the scheduler and its driver: limits, segments, outcomes, counters."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from inferometer.engine.simulated.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Limits:
    """What the scheduler may do; the meaning is that of the options of the same names."""

    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    speculative_tokens: int
    acceptance_length: float
    seed: int


@dataclass(slots=True)
class Counters:
    """Totals since the start, all in tokens but for requests, preemptions, drafts and steps."""

    submitted: int = 0
    finished: int = 0
    cancelled: int = 0
    rejected: int = 0
    preemptions: int = 0
    prompt_tokens: int = 0
    """Of prompts whose prefill is complete, cached ones included."""
    generation_tokens: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    steps: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """n steps of one composition. `ends_ns` int64[n], absolute."""

    start_ns: int
    ends_ns: npt.NDArray[np.int64]

    def steps_until(self, at_ns: int) -> int:
        """Steps up to and with the one under way at `at_ns` (one that ends then is complete)."""
        return min(int(self.ends_ns.searchsorted(at_ns)) + 1, len(self.ends_ns))

    def steps_done(self, at_ns: int) -> int:
        """Steps complete at `at_ns`."""
        return int(self.ends_ns.searchsorted(at_ns, side="right"))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a commit changed, besides tokens: sequences that got their first one, and the ended."""

    started: list[Sequence] = field(default_factory=list)
    finished: list[Sequence] = field(default_factory=list)
