"""Continuous batching, as a pure function of what was submitted and when. No clock, no asyncio.

A driver alternates `next_segment`, which admits and then describes n >= 1 steps of unchanging
composition, and `commit(k)`, which makes the first k of them happen. Cutting a segment short and
asking again gives the same token times as taking it whole, so a driver may cut at will: it must,
at the step under way, when a request arrives or leaves.

Every step decodes all sequences in decode, then spends what is left of the token budget on running
prefills and on admissions, first come first served. When blocks run out, the latest admitted
sequence is preempted and later recomputed.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from inferometer.core import Arrivals, Prompt
from inferometer.engine.simulated.contract import Counters, Limits, Outcome, Segment
from inferometer.engine.simulated.prefix_cache import PrefixCache
from inferometer.engine.simulated.roofline import Chunk, StepCost
from inferometer.engine.simulated.sequence import Acceptance, Sequence, State, StepLog
from inferometer.errors import InputError

MAX_STEPS = 4096
"""Longest segment: bounds the arrays that a cut throws away."""


class Scheduler:
    """The engine core. All methods are synchronous; times are the caller's nanoseconds."""

    def __init__(self, limits: Limits, cost: StepCost, cache: PrefixCache) -> None:
        self._limits = limits
        self._cost = cost
        self.cache = cache
        self.counters = Counters()
        self._log = StepLog()
        self._acceptance = Acceptance(
            limits.seed, limits.speculative_tokens, limits.acceptance_length
        )
        self._per_decode = 1 + limits.speculative_tokens
        # Decodes always fit the budget: the cap is lowered where it would not hold them all.
        self._cap = min(limits.max_num_seqs, limits.max_num_batched_tokens // self._per_decode)
        self._waiting: deque[Sequence] = deque()
        self._running: dict[str, Sequence] = {}  # in order of admission
        self._segment: Segment | None = None
        self._decoding: list[Sequence] = []  # of the segment
        self._chunks: list[Sequence] = []  # of the segment: prefills that compute
        self._leaving: list[str] = []

    @property
    def block_size(self) -> int:
        """Tokens a block of the pool."""
        return self._limits.block_size

    @property
    def running(self) -> int:
        """Sequences admitted and not ended."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Sequences not yet admitted, or preempted."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Nothing submitted is left to do."""
        return not self._waiting and not self._running

    def submit(self, id: str, prompt: Prompt, max_tokens: int, now_ns: int) -> Sequence:
        """Queue a request. InputError when it can never be served."""
        self.counters.submitted += 1
        if problem := self._refusal(id, prompt, max_tokens):
            self.counters.rejected += 1
            raise InputError(problem)
        accepted = self._acceptance.draw(id, max_tokens)
        sequence = Sequence(id, prompt, max_tokens, now_ns, accepted)
        self._waiting.append(sequence)
        return sequence

    def cancel(self, id: str) -> None:
        """Drop a request: at the end of the step under way where it runs. Unknown ids are ignored:
        it may just have finished.
        """
        self._leaving.append(id)
        if self._segment is None:
            self._drop_leaving()

    def next_segment(self, now_ns: int, max_steps: int = MAX_STEPS) -> Segment | None:
        """Admit, then describe the next steps, which start at `now_ns`; None when idle.

        The segment must be committed, in part at least, before the next one is asked for.
        """
        assert self._segment is None, "the segment before was not committed"
        before = self.counters.preemptions
        self._make_room_for_decodes()
        chunks = self._continue_prefills()
        preempted = self.counters.preemptions > before
        if not preempted:  # what was just preempted must not take the blocks straight back
            chunks += self._admit(now_ns, chunks)
        elif any(seq.state is not State.DECODE for seq in self._decoding):
            self._decoding = self._in_state(State.DECODE)
        self._chunks = chunks
        context = sum([seq.computed for seq in self._decoding])
        if chunks:
            pieces = [Chunk(seq.chunk, seq.computed) for seq in chunks]
            step = self._cost.mixed_ns(len(self._decoding), context, pieces)
            durations = np.array([step], dtype=np.int64)
        elif self._decoding:
            # After a preemption the next step may admit again, so it must be planned anew.
            steps = self._steps_unchanged(1 if preempted else max_steps)
            contexts = context + self._generated_before(steps)
            durations = self._cost.decode_ns(len(self._decoding), contexts)
        else:
            return None
        self._segment = Segment(now_ns, now_ns + durations.cumsum())
        return self._segment

    def commit(self, steps: int) -> Outcome:
        """Make the first `steps` steps of the segment happen and drop the rest of it."""
        segment, outcome = self._segment, Outcome()
        assert segment is not None
        assert 1 <= steps <= len(segment.ends_ns)
        self._segment = None
        if self._log.full:
            self._log.forget(self._oldest_step())
        self._log.append(segment.ends_ns[:steps])
        self.counters.steps += steps
        self._decode(steps, outcome)
        for sequence in self._chunks:
            self._prefill(sequence, outcome)
        for sequence in outcome.finished:
            self._retire(sequence)
            self.counters.finished += 1
        self._drop_leaving()
        return outcome

    def close(self) -> None:
        """End everything at once, as when the process dies; the step under way never ends."""
        self._segment = None
        for sequence in list(self._running.values()):
            self._retire(sequence)
        self._waiting.clear()

    def arrivals(self, sequence: Sequence) -> Arrivals:
        """Token times of a sequence that has just ended; only valid until the next commit."""
        return self._log.arrivals(sequence)

    # Planning: blocks for one step of every decode, then prefills, then admissions.

    def _make_room_for_decodes(self) -> None:
        """Take the blocks for the next step of every decode, by preemption if need be."""
        while True:
            self._decoding = self._in_state(State.DECODE)
            more, size = self._per_decode, self._limits.block_size
            short = [seq for seq in self._decoding if seq.computed + more > seq.capacity]
            need = sum(self._blocks_after(seq, 1) - seq.capacity // size for seq in short)
            if need <= self.cache.available:
                break
            self._preempt_latest()
        for sequence in short:
            self._grow(sequence, self._blocks_after(sequence, 1))

    def _in_state(self, state: State) -> list[Sequence]:
        """Running sequences in a state, in order of admission."""
        return [seq for seq in self._running.values() if seq.state is state]

    def _continue_prefills(self) -> list[Sequence]:
        """Give running prefills their next chunk, oldest first; the younger make room."""
        chunks: list[Sequence] = []
        for sequence in self._in_state(State.PREFILL):
            sequence.chunk = 0
            if sequence.id not in self._running:
                continue
            want = min(sequence.target - sequence.computed, self._budget(chunks))
            while self._chunk_that_fits(sequence, want) < want and self._latest is not sequence:
                self._preempt_latest()
            if chunk := self._chunk_that_fits(sequence, want):
                self._start_chunk(sequence, chunk)
                chunks.append(sequence)
        return chunks

    def _admit(self, now_ns: int, running: list[Sequence]) -> list[Sequence]:
        """Admit from the head of the queue until cap, budget or blocks stop it."""
        admitted: list[Sequence] = []
        while self._waiting and len(self._running) < self._cap:
            budget = self._budget(running + admitted)
            if budget <= 0 or not self._take(self._waiting[0], budget, now_ns):
                break
            admitted.append(self._waiting.popleft())
        return admitted

    def _take(self, sequence: Sequence, budget: int, now_ns: int) -> bool:
        """Start a waiting sequence with its first chunk, if the blocks for it can be had."""
        size = self._limits.block_size
        target = sequence.prompt.tokens + sequence.generated
        # The last token is always computed: a token can only be sampled from a forward pass.
        limit = min(len(sequence.prompt.blocks), (target - 1) // size)
        match = self.cache.match(sequence.prompt.blocks, limit)
        hit = match.blocks * size
        chunk = min(target - hit, budget)
        need = -(-(hit + chunk) // size) - match.blocks
        if need > self.cache.available - match.cached:
            return False
        sequence.hold = self.cache.acquire(match)
        sequence.state, sequence.target, sequence.computed = State.PREFILL, target, hit
        sequence.capacity = hit
        self._running[sequence.id] = sequence
        if sequence.admitted_ns is None:
            sequence.admitted_ns, sequence.cached_tokens = now_ns, hit
            self.counters.prefix_queries += sequence.prompt.tokens
            self.counters.prefix_hits += hit
        self._start_chunk(sequence, chunk)
        return True

    def _start_chunk(self, sequence: Sequence, chunk: int) -> None:
        """Take the blocks of a chunk and publish its whole prompt blocks: others hit them from the
        same step on, as in vLLM, since they are complete before anything of the next step reads.
        """
        hold, size = sequence.hold, self._limits.block_size
        assert hold is not None
        sequence.chunk = chunk
        end = sequence.computed + chunk
        self._grow(sequence, -(-end // size))
        blocks = sequence.prompt.blocks
        self.cache.publish(hold, blocks, min(end // size, len(blocks)))

    def _budget(self, chunks: list[Sequence]) -> int:
        """Tokens of the step that decodes and `chunks` leave."""
        spent = len(self._decoding) * self._per_decode + sum(seq.chunk for seq in chunks)
        return self._limits.max_num_batched_tokens - spent

    def _chunk_that_fits(self, sequence: Sequence, want: int) -> int:
        room = sequence.capacity + self.cache.available * self._limits.block_size
        return max(0, min(want, room - sequence.computed))

    def _steps_unchanged(self, most: int) -> int:
        """Decode steps until the first sequence ends or blocks run out."""
        decoding, size = self._decoding, self._limits.block_size
        steps = min(most, min([seq.finish_step for seq in decoding]) + 1 - len(self._log))
        if len(decoding) * (steps * self._per_decode // size + 1) <= self.cache.available:
            return steps
        low, high = 1, steps  # one step has its blocks already
        while low < high:
            middle = (low + high + 1) // 2
            after = sum(self._blocks_after(seq, middle) for seq in decoding)
            need = after - sum(seq.capacity for seq in decoding) // size
            low, high = (middle, high) if need <= self.cache.available else (low, middle - 1)
        return low

    def _generated_before(self, steps: int) -> npt.NDArray[np.int64]:
        """int64[steps]: tokens the batch generates before each of the next steps."""
        if not self._limits.speculative_tokens:
            return len(self._decoding) * np.arange(steps, dtype=np.int64)
        tokens = np.zeros(steps, dtype=np.int64)
        earlier = 0
        for sequence in self._decoding:
            assert sequence.accepted is not None
            tokens += sequence.accepted[sequence.decoded : sequence.decoded + steps]
            earlier += sequence.accepted.item(sequence.decoded)
        return tokens - earlier

    # Committing.

    def _decode(self, steps: int, outcome: Outcome) -> None:
        """Advance every decode; each gets a token, or what was accepted, at every step."""
        most, total = steps * self._per_decode, 0
        for sequence in self._decoding:
            if sequence.computed + most > sequence.capacity:
                self._grow(sequence, self._blocks_after(sequence, steps))
            raw = steps
            if sequence.accepted is not None:
                raw = sequence.tokens_in(steps)
                self.counters.accepted_tokens += raw - steps
            tokens = min(raw, sequence.max_tokens - sequence.generated)
            sequence.decoded += steps
            sequence.computed += tokens
            sequence.generated += tokens
            total += tokens
            if sequence.generated == sequence.max_tokens:
                outcome.finished.append(sequence)
        self.counters.generation_tokens += total
        if drafts := self._limits.speculative_tokens:
            self.counters.drafts += steps * len(self._decoding)
            self.counters.draft_tokens += steps * len(self._decoding) * drafts

    def _prefill(self, sequence: Sequence, outcome: Outcome) -> None:
        """Finish a chunk; the one that completes the target gives a token in the same step."""
        sequence.computed += sequence.chunk
        sequence.chunk = 0
        if sequence.computed < sequence.target:
            return
        if sequence.generated == 0:
            outcome.started.append(sequence)
            self.counters.prompt_tokens += sequence.prompt.tokens
        sequence.state = State.DECODE
        sequence.generated += 1
        self.counters.generation_tokens += 1
        sequence.run_start = len(self._log) - 1
        if sequence.generated == sequence.max_tokens:
            outcome.finished.append(sequence)
        else:
            sequence.finish_step = sequence.run_start + sequence.steps_left()

    def _grow(self, sequence: Sequence, blocks: int) -> None:
        assert sequence.hold is not None
        self.cache.grow(sequence.hold, blocks)
        sequence.capacity = sequence.hold.blocks * self._limits.block_size

    def _blocks_after(self, sequence: Sequence, steps: int) -> int:
        """Blocks held in the last of the next `steps` decode steps: KV of the context, of the
        token just sampled and of all drafts, accepted or not. At most those of the whole request.
        """
        tokens = sequence.computed + sequence.tokens_in(steps - 1) + self._per_decode
        whole = sequence.prompt.tokens + sequence.max_tokens
        tokens = max(sequence.capacity, min(tokens, whole))
        return -(-tokens // self._limits.block_size)

    # Leaving the batch.

    @property
    def _latest(self) -> Sequence:
        return next(reversed(self._running.values()))

    def _preempt_latest(self) -> None:
        """Put the latest admitted sequence back at the head of the queue, to be recomputed."""
        sequence = self._latest
        self._release(sequence)
        sequence.state, sequence.computed, sequence.chunk = State.WAITING, 0, 0
        sequence.capacity = 0
        sequence.preemptions += 1
        self.counters.preemptions += 1
        self._waiting.appendleft(sequence)

    def _retire(self, sequence: Sequence) -> None:
        self._release(sequence)
        sequence.state = State.DONE

    def _release(self, sequence: Sequence) -> None:
        assert sequence.hold is not None
        self.cache.release(sequence.hold)
        sequence.hold = None
        if sequence.run_start is not None:
            sequence.runs.append((sequence.run_start, len(self._log)))
            sequence.run_start = None
        del self._running[sequence.id]

    def _drop_leaving(self) -> None:
        for id in self._leaving:
            if (sequence := self._running.get(id)) is not None:
                self._retire(sequence)
                self.counters.cancelled += 1
            else:
                kept = [waiting for waiting in self._waiting if waiting.id != id]
                self.counters.cancelled += len(self._waiting) - len(kept)
                self._waiting = deque(kept)
        self._leaving.clear()

    def _oldest_step(self) -> int:
        """The first step of the log that a live sequence still needs."""
        live = [*self._running.values(), *self._waiting]
        starts = [seq.runs[0][0] if seq.runs else seq.run_start for seq in live]
        return min((start for start in starts if start is not None), default=len(self._log))

    def _refusal(self, id: str, prompt: Prompt, max_tokens: int) -> str | None:
        size, whole = self._limits.block_size, prompt.tokens + max_tokens
        if prompt.block_size != size:
            return f"the prompt has blocks of {prompt.block_size} tokens, the engine of {size}"
        if prompt.tokens < 1 or max_tokens < 1:
            return "a request needs at least one prompt token and one output token"
        if whole > self._limits.max_model_len:
            return (
                f"{prompt.tokens} prompt tokens and {max_tokens} output tokens exceed the maximum "
                f"model length of {self._limits.max_model_len}"
            )
        if -(-whole // size) > self.cache.total:
            return f"{whole} tokens do not fit the KV pool of {self.cache.total * size} tokens"
        if id in self._running or any(waiting.id == id for waiting in self._waiting):
            return f"request id {id!r} is in use"
        return None
