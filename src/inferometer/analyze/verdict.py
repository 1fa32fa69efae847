"""Is the measurement worth anything: reasons with codes and bounds; the worst one decides.

A bound is a named constant with the reason for its size. Nothing is measured here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from inferometer.analyze.selfcheck import Counter
from inferometer.core import Reason, Verdict, VerdictLevel, Window

FAILED_SHARE_INVALID = 0.10
"""A tenth of the load never became work: the rest ran on a lighter load than the one declared. It
is also where a live run is stopped."""
FAILURE_CLASS_DEGRADED = 0.01
"""One failure class above 1 % reaches the p99 of any latency."""
CENSORED_DEGRADED = 0.01
"""The unfinished are the slowest: above 1 % the p99 is no longer of the requests that were sent."""
CONTEXT_OVERFLOW_DEGRADED = 0.01
"""Turns left out because the model could not hold them: the longest of the load, as above."""
FEW_SAMPLES = 6
"""Below six values the order statistics of a median have no 95 % interval: 2 x 0.5^5 > 0.05."""
SCHEDULE_LAG_FLOOR_MS = 2.0
"""An event loop's timers round up by as much as 1 ms, and a request takes some work to send."""
SCHEDULE_LAG_TTFT_SHARE = 0.01
"""A request that leaves 1 % of a TTFT late moves no published digit of it."""
INVALID_FACTOR = 10.0
"""Ten times the bound: a tenth of a TTFT, then the client sets the pace and not the engine."""
LOOP_LAG_DEGRADED_MS = 20.0
"""A typical gap between two chunks. Without kernel stamps a loop this late adds as much to every
stamp that it takes; with them arrivals are stamped on time, whatever the loop does."""
LOOP_LAG_INVALID_MS = 200.0
"""Kernel stamps or not, a closed loop that answers 200 ms late sends another load."""
CLIENT_CPU_DEGRADED = 0.90
"""One loop is one core. A loop that is busy for 90 % of its time lets work wait behind work, most
of all with arrivals in bursts; where that did harm, the lags say how much."""
UNSENT_DEGRADED, UNSENT_INVALID = 0.01, 0.10
"""Arrivals that were due and never got a place are missing from every latency but those with
errors: as for failures."""
LITTLE_DEGRADED, LITTLE_INVALID = 0.05, 0.20
"""The gauge counts what the records should hold. Sampling error is allowed for apart (three
standard errors), so 5 % more is requests that were open and are not in the records."""
COUNTERS_INVALID = 0.01
"""Counters are exact, so any difference is a fault to explain; 1 % moves the published rates."""
ENGINE_LATE_MS = 5.0
ENGINE_LATE_GAP_SHARE = 0.20
"""The built-in engine keeps a timetable. A fifth of a chunk gap late, or 5 ms where gaps are long,
and the machine that was measured is not the one that was declared."""
COALESCED_FIRST_DEGRADED = 0.50
"""With most first tokens stamped by a later event, the median TTFT itself is an upper bound. With
kernel stamps the error is at most the gap to that event; by read time it has no bound."""
INPUT_MISMATCH_DEGRADED = 0.02
"""A template or tokenizer that adds 2 % is another workload; less is a marker or special tokens."""
OUTPUT_MISMATCH_DEGRADED = 0.01
"""Where the end of an answer is to be ignored, every answer has the length asked for: an engine
that stops earlier is given less work than its neighbours on the chart."""
OTHER_CPU_DEGRADED = 0.20
"""A fifth of the cores went to processes that are not of the run: engine and client waited for
them, and nothing in the records tells how long."""
GPU_SHARED_DEGRADED = 0.0
"""Any other process on a GPU of the deployment takes memory, bandwidth or time from the engine."""
THROTTLED_DEGRADED = 0.01
"""Held down by heat or hardware for more than 1 % of the window: another card than the one named.
At its power limit a card is as it was built to be, and that is no fault."""
GPU_HELD_DEGRADED = 0.02
"""A driver's own share of a card is below 1 %. More was left by an engine before this one, or is
somebody else's: engines size their KV pool by what is free."""
GPU_HELD_INVALID = 0.10
"""With a tenth of the card gone the pool is another one than the launch asks for."""
CLOCK_STEP_DEGRADED_S = 0.5
"""Stamps are monotonic and cannot step; the wall clock they are told by can, and then no outside
log can be laid beside the run."""
ACCEPTANCE_DEGRADED = 0.05
"""A simulated acceptance is set so that engines can be compared, and every rate follows it: 5 % off
is 5 % of a rate. Chance is far below: see the number of verifications."""
ACCEPTANCE_MIN_DRAFTS = 400
"""A length between two whole numbers has at most a half for its standard deviation: three standard
errors of 400 verifications are 0.075, below 5 % of any length above 1.5."""
WINDOW_SLACK_S = 0.001
"""A timer may fire early by its resolution."""


class Code(StrEnum):
    """Stable names of the reasons."""

    NO_SAMPLES = "no_samples"
    FEW_SAMPLES = "few_samples"
    FAILED_SHARE = "failed_share"
    CENSORED_SHARE = "censored_share"
    CONTEXT_OVERFLOW = "context_overflow"
    SHORT_WINDOW = "short_window"
    ENGINE_DIED = "engine_died"
    ENGINE_LATE = "engine_late"
    SCHEDULE_LAG = "schedule_lag"
    CLIENT_LAG = "client_lag"
    CLIENT_CPU = "client_cpu"
    ARRIVALS_UNSENT = "arrivals_unsent"
    COALESCED_FIRST_TOKENS = "coalesced_first_tokens"
    LITTLE_RESIDUAL = "little_residual"
    COUNTERS_DISAGREE = "counters_disagree"
    TOKEN_MISMATCH = "token_mismatch"
    OUTPUT_MISMATCH = "output_mismatch"
    POWER_INVALID = "power_invalid"
    GPU_SHARED = "gpu_shared"
    GPU_THROTTLED = "gpu_throttled"
    HOST_SHARED = "host_shared"
    CLOCK_STEP = "clock_step"
    ACCEPTANCE_OFF = "acceptance_off"
    ENGINE_VERSION = "engine_version"
    GPU_MEMORY_HELD = "gpu_memory_held"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a verdict rests on. Counts are of measured requests sent in the window; None is unknown
    and never held against a point.
    """

    ok: int
    censored: int
    failures: Mapping[str, int]
    context_overflows: int
    arrivals_due: int | None
    """None in a closed loop."""
    arrivals_unsent: int
    window: Window
    engine_died: str | None
    ttft_p50_s: float | None
    chunk_gap_p50_s: float | None
    schedule_lag_ms: float | None
    schedule_lag_percent: int | None
    """Which percentile `schedule_lag_ms` is: the highest that the number of requests supports."""
    stamp_source: str
    loop_lag_p99_ms: float | None
    busiest_cpu_share: float | None
    first_token_coalesced_share: float | None
    little_residual: float | None
    little_noise: float | None
    input_mismatch: float | None
    output_mismatch: float | None
    """None also where answers may end by themselves."""
    engine_lateness_p99_ms: float | None
    counters: tuple[Counter, ...]
    labels: tuple[str, ...]
    power_missing: str | None = None
    """Why there is no valid power, where the plan requires one."""
    gpu_shared_share: float | None = None
    gpu_throttled_share: float | None = None
    other_cpu_share: float | None = None
    clock_step_s: float | None = None
    acceptance_length: float | None = None
    acceptance_target: float | None = None
    """Of a simulated acceptance; None where the model judges its drafts."""
    drafts: float | None = None
    """Verifications in the window; None where the engine counts none."""
    version_problem: str | None = None
    """How the engine's own version differs from the one that the plan names."""
    gpu_held_share: float | None = None
    """Of a GPU's memory, in use before the engine was started."""

    @property
    def failed(self) -> int:
        """Requests that failed, of any class."""
        return sum(self.failures.values())

    @property
    def finished(self) -> int:
        """What shares are of. Requests that the client itself cancelled are left out."""
        return self.ok + self.failed + self.censored


def judge(evidence: Evidence) -> Verdict:
    """Every reason that holds, and the worst of their levels."""
    reasons = tuple(reason for rule in RULES for reason in rule(evidence))
    levels = {reason.level for reason in reasons}
    level: VerdictLevel = "valid"
    if levels:
        level = "invalid" if "invalid" in levels else "degraded"
    return Verdict(level, reasons, evidence.labels)


def schedule_lag_bound_ms(ttft_ms: float) -> float:
    """How late requests may leave where the median TTFT is this."""
    return max(SCHEDULE_LAG_FLOOR_MS, SCHEDULE_LAG_TTFT_SHARE * ttft_ms)


def ttft_for_lag_ms(lag_ms: float) -> float:
    """The median TTFT from which on a lag is within its bound; 0 where it is with any."""
    return 0.0 if lag_ms <= SCHEDULE_LAG_FLOOR_MS else lag_ms / SCHEDULE_LAG_TTFT_SHARE


def loop_lag_bound_ms(kernel_stamps: bool) -> float:
    """How late a loop of the client may be, at p99."""
    return LOOP_LAG_INVALID_MS if kernel_stamps else LOOP_LAG_DEGRADED_MS


def _graded(
    code: Code, value: float, degraded: float, invalid: float | None, text: str
) -> list[Reason]:
    """One reason where `value` is above a bound, the higher bound first."""
    if invalid is not None and value > invalid:
        return [Reason(code, "invalid", text, value, invalid)]
    if value > degraded:
        return [Reason(code, "degraded", text, value, degraded)]
    return []


def _samples(seen: Evidence) -> list[Reason]:
    if seen.ok == 0:
        return [Reason(Code.NO_SAMPLES, "invalid", "no request ended OK", 0, 1)]
    if seen.ok < FEW_SAMPLES:
        text = f"{seen.ok} requests ended OK: no percentile has a 95 % interval"
        return [Reason(Code.FEW_SAMPLES, "degraded", text, seen.ok, FEW_SAMPLES)]
    return []


def _failed(seen: Evidence) -> list[Reason]:
    total = max(seen.finished, 1)
    share = seen.failed / total
    if share > FAILED_SHARE_INVALID:
        text = f"{seen.failed} of {total} requests failed"
        return [Reason(Code.FAILED_SHARE, "invalid", text, share, FAILED_SHARE_INVALID)]
    return [
        reason
        for name, count in sorted(seen.failures.items())
        for reason in _graded(
            Code.FAILED_SHARE,
            count / total,
            FAILURE_CLASS_DEGRADED,
            None,
            f"{count} of {total} requests failed: {name}",
        )
    ]


def _censored(seen: Evidence) -> list[Reason]:
    text = f"{seen.censored} of {seen.finished} requests were open when the grace period ended"
    share = seen.censored / max(seen.finished, 1)
    return _graded(Code.CENSORED_SHARE, share, CENSORED_DEGRADED, None, text)


def _context_overflow(seen: Evidence) -> list[Reason]:
    due = seen.finished + seen.context_overflows
    text = f"{seen.context_overflows} of {due} turns exceed the model's context and were not sent"
    share = seen.context_overflows / max(due, 1)
    return _graded(Code.CONTEXT_OVERFLOW, share, CONTEXT_OVERFLOW_DEGRADED, None, text)


def _window(seen: Evidence) -> list[Reason]:
    window = seen.window
    short = window.declared_s is not None and window.seconds < window.declared_s - WINDOW_SLACK_S
    if window.complete and not short:
        return []
    ended = f"ended after {window.seconds:.1f} s" if window.seconds > 0 else "never opened"
    text = f"the window {ended}: {window.stop_reason or 'no reason given'}"
    return [Reason(Code.SHORT_WINDOW, "invalid", text, window.seconds, window.declared_s)]


def _engine_died(seen: Evidence) -> list[Reason]:
    if seen.engine_died is None:
        return []
    return [Reason(Code.ENGINE_DIED, "invalid", f"the engine died: {seen.engine_died}", None, None)]


def _engine_late(seen: Evidence) -> list[Reason]:
    late_ms, gap_s = seen.engine_lateness_p99_ms, seen.chunk_gap_p50_s
    if late_ms is None:
        return []
    bound_ms = min(ENGINE_LATE_MS, ENGINE_LATE_GAP_SHARE * gap_s * 1e3) if gap_s else ENGINE_LATE_MS
    text = f"the built-in engine emitted {late_ms:.2f} ms late at p99: it was not the one declared"
    return _graded(Code.ENGINE_LATE, late_ms, bound_ms, None, text)


def _schedule_lag(seen: Evidence) -> list[Reason]:
    lag_ms = seen.schedule_lag_ms
    if lag_ms is None:
        return []
    bound_ms = schedule_lag_bound_ms((seen.ttft_p50_s or 0.0) * 1e3)
    text = f"requests left {lag_ms:.2f} ms late at p{seen.schedule_lag_percent}"
    return _graded(Code.SCHEDULE_LAG, lag_ms, bound_ms, INVALID_FACTOR * bound_ms, text)


def _client_lag(seen: Evidence) -> list[Reason]:
    lag_ms = seen.loop_lag_p99_ms
    if lag_ms is None:
        return []
    bound_ms = loop_lag_bound_ms(seen.stamp_source == "kernel")
    text = f"the client's loop was {lag_ms:.1f} ms late at p99, with {seen.stamp_source} stamps"
    return _graded(Code.CLIENT_LAG, lag_ms, bound_ms, LOOP_LAG_INVALID_MS, text)


def _client_cpu(seen: Evidence) -> list[Reason]:
    share = seen.busiest_cpu_share
    if share is None:
        return []
    text = f"a process of the client was busy for {share:.0%} of the window; one loop has one core"
    return _graded(Code.CLIENT_CPU, share, CLIENT_CPU_DEGRADED, None, text)


def _arrivals_unsent(seen: Evidence) -> list[Reason]:
    due = seen.arrivals_due or 0
    text = f"{seen.arrivals_unsent} of {due} arrivals still waited for a place at the end"
    share = seen.arrivals_unsent / max(due, 1)
    return _graded(Code.ARRIVALS_UNSENT, share, UNSENT_DEGRADED, UNSENT_INVALID, text)


def _coalesced(seen: Evidence) -> list[Reason]:
    share = seen.first_token_coalesced_share
    if share is None or seen.stamp_source != "read":
        return []
    text = f"{share:.0%} of first tokens were read together with later ones, without kernel stamps"
    return _graded(Code.COALESCED_FIRST_TOKENS, share, COALESCED_FIRST_DEGRADED, None, text)


def _little(seen: Evidence) -> list[Reason]:
    residual, noise = seen.little_residual, seen.little_noise or 0.0
    if residual is None:
        return []
    text = f"the gauge of open requests is {residual:+.1%} off the records"
    bounds = max(LITTLE_DEGRADED, noise), max(LITTLE_INVALID, noise)
    return _graded(Code.LITTLE_RESIDUAL, abs(residual), *bounds, text)


def _counters(seen: Evidence) -> list[Reason]:
    return [
        reason
        for counter in seen.counters
        for reason in _graded(
            Code.COUNTERS_DISAGREE,
            counter.difference,
            0.0,
            COUNTERS_INVALID,
            f"{counter.family}: {counter.client} by the client, {counter.engine:.0f} by the engine",
        )
    ]


def _token_mismatch(seen: Evidence) -> list[Reason]:
    share = seen.input_mismatch
    if share is None:
        return []
    text = (
        f"prompts are {share:.1%} off their intended length in the median, by server count; "
        "say whose tokens to count in (bench --tokenizer PATH, or workload.tokenizer in a recipe)"
    )
    return _graded(Code.TOKEN_MISMATCH, share, INPUT_MISMATCH_DEGRADED, None, text)


def _output_mismatch(seen: Evidence) -> list[Reason]:
    share = seen.output_mismatch
    if share is None:
        return []
    text = f"{share:.1%} of the answers are not as long as asked, although their end is ignored"
    return _graded(Code.OUTPUT_MISMATCH, share, OUTPUT_MISMATCH_DEGRADED, None, text)


def _power(seen: Evidence) -> list[Reason]:
    if seen.power_missing is None:
        return []
    text = f"the plan requires measured power, and there is none: {seen.power_missing}"
    return [Reason(Code.POWER_INVALID, "invalid", text, None, None)]


def _shared(seen: Evidence) -> list[Reason]:
    """Other users of the machine during the window."""
    found = []
    if (share := seen.gpu_shared_share) is not None:
        text = f"other processes were on the deployment's GPUs for {share:.0%} of the window"
        found += _graded(Code.GPU_SHARED, share, GPU_SHARED_DEGRADED, None, text)
    if (share := seen.other_cpu_share) is not None:
        text = f"processes that are not of the run took {share:.0%} of the cores"
        found += _graded(Code.HOST_SHARED, share, OTHER_CPU_DEGRADED, None, text)
    return found


def _throttled(seen: Evidence) -> list[Reason]:
    share = seen.gpu_throttled_share
    if share is None:
        return []
    text = f"GPUs were slowed by heat or hardware for {share:.0%} of the window"
    return _graded(Code.GPU_THROTTLED, share, THROTTLED_DEGRADED, None, text)


def _clock_step(seen: Evidence) -> list[Reason]:
    step_s = seen.clock_step_s
    if step_s is None:
        return []
    text = f"the wall clock moved by {step_s:.2f} s against the monotonic one"
    return _graded(Code.CLOCK_STEP, step_s, CLOCK_STEP_DEGRADED_S, None, text)


def _acceptance(seen: Evidence) -> list[Reason]:
    length, target = seen.acceptance_length, seen.acceptance_target
    few = seen.drafts is not None and seen.drafts < ACCEPTANCE_MIN_DRAFTS
    if length is None or not target or few:
        return []
    off = abs(length - target) / target
    text = f"the acceptance length was {length:.2f}, and {target:.2f} is to be simulated"
    return _graded(Code.ACCEPTANCE_OFF, off, ACCEPTANCE_DEGRADED, None, text)


def _version(seen: Evidence) -> list[Reason]:
    if seen.version_problem is None:
        return []
    return [Reason(Code.ENGINE_VERSION, "invalid", seen.version_problem, None, None)]


def _held(seen: Evidence) -> list[Reason]:
    share = seen.gpu_held_share
    if share is None:
        return []
    text = f"{share:.1%} of a GPU's memory were in use before the engine was started"
    return _graded(Code.GPU_MEMORY_HELD, share, GPU_HELD_DEGRADED, GPU_HELD_INVALID, text)


RULES: tuple[Callable[[Evidence], list[Reason]], ...] = (
    _engine_died,
    _window,
    _samples,
    _failed,
    _censored,
    _context_overflow,
    _schedule_lag,
    _client_lag,
    _client_cpu,
    _arrivals_unsent,
    _coalesced,
    _little,
    _counters,
    _engine_late,
    _token_mismatch,
    _output_mismatch,
    _power,
    _shared,
    _throttled,
    _clock_step,
    _acceptance,
    _version,
    _held,
)
