"""Is the load what was declared, and the client fit to send it: rules on requests, window and
client, with their bounds and the reason for the size of each.
"""

from __future__ import annotations

from collections.abc import Callable

from inferometer.analyze.evidence import Code, Evidence, graded
from inferometer.core import Reason

FAILED_SHARE_INVALID = 0.10
"""A tenth of the load never became work: the rest ran on a lighter load than the one declared. It
is also where a live run is stopped."""
FAILURE_CLASS_DEGRADED = 0.01
"""One failure class above 1 % reaches the p99 of any latency."""
CENSORED_DEGRADED = 0.01
"""The unfinished are the slowest: above 1 % the p99 is no longer of the requests that were sent."""
CENSORED_LET_PASS = 1
"""A single one is beyond every percentile that is given: pXX needs 1 / (1 - XX) requests that
ended, and one more than those is less than the share 1 - XX. Of fewer than 100 requests it would be
above 1 %, and any window that long answers run across ends so."""
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
COALESCED_FIRST_DEGRADED = 0.50
"""With most first tokens stamped by a later event, the median TTFT itself is an upper bound. With
kernel stamps the error is at most the gap to that event; by read time it has no bound."""
INPUT_MISMATCH_DEGRADED = 0.02
"""A template or tokenizer that adds 2 % is another workload; less is a marker or special tokens."""
OUTPUT_MISMATCH_DEGRADED = 0.01
"""Where the end of an answer is to be ignored, every answer has the length asked for: an engine
that stops earlier is given less work than its neighbours on the chart."""
WINDOW_SLACK_S = 0.001
"""A timer may fire early by its resolution."""


def schedule_lag_bound_ms(ttft_ms: float) -> float:
    """How late requests may leave where the median TTFT is this."""
    return max(SCHEDULE_LAG_FLOOR_MS, SCHEDULE_LAG_TTFT_SHARE * ttft_ms)


def ttft_for_lag_ms(lag_ms: float) -> float:
    """The median TTFT from which on a lag is within its bound; 0 where it is with any."""
    return 0.0 if lag_ms <= SCHEDULE_LAG_FLOOR_MS else lag_ms / SCHEDULE_LAG_TTFT_SHARE


def loop_lag_bound_ms(kernel_stamps: bool) -> float:
    """How late a loop of the client may be, at p99."""
    return LOOP_LAG_INVALID_MS if kernel_stamps else LOOP_LAG_DEGRADED_MS


def _engine_died(seen: Evidence) -> list[Reason]:
    if seen.engine_died is None:
        return []
    return [Reason(Code.ENGINE_DIED, "invalid", f"the engine died: {seen.engine_died}", None, None)]


def _window(seen: Evidence) -> list[Reason]:
    window = seen.window
    short = window.declared_s is not None and window.seconds < window.declared_s - WINDOW_SLACK_S
    if window.complete and not short:
        return []
    ended = f"ended after {window.seconds:.1f} s" if window.seconds > 0 else "never opened"
    text = f"the window {ended}: {window.stop_reason or 'no reason given'}"
    return [Reason(Code.SHORT_WINDOW, "invalid", text, window.seconds, window.declared_s)]


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
        for reason in graded(
            Code.FAILED_SHARE,
            count / total,
            FAILURE_CLASS_DEGRADED,
            None,
            f"{count} of {total} requests failed: {name}",
        )
    ]


def _censored(seen: Evidence) -> list[Reason]:
    text = f"{seen.censored} of {seen.finished} requests were open when the grace period ended"
    if seen.censored <= CENSORED_LET_PASS:
        return []
    share = seen.censored / max(seen.finished, 1)
    return graded(Code.CENSORED_SHARE, share, CENSORED_DEGRADED, None, text)


def _context_overflow(seen: Evidence) -> list[Reason]:
    due = seen.finished + seen.context_overflows
    text = f"{seen.context_overflows} of {due} turns exceed the model's context and were not sent"
    share = seen.context_overflows / max(due, 1)
    return graded(Code.CONTEXT_OVERFLOW, share, CONTEXT_OVERFLOW_DEGRADED, None, text)


def _schedule_lag(seen: Evidence) -> list[Reason]:
    lag_ms = seen.schedule_lag_ms
    if lag_ms is None:
        return []
    bound_ms = schedule_lag_bound_ms((seen.ttft_p50_s or 0.0) * 1e3)
    text = f"requests left {lag_ms:.2f} ms late at p{seen.schedule_lag_percent}"
    return graded(Code.SCHEDULE_LAG, lag_ms, bound_ms, INVALID_FACTOR * bound_ms, text)


def _client_lag(seen: Evidence) -> list[Reason]:
    lag_ms = seen.loop_lag_p99_ms
    if lag_ms is None:
        return []
    bound_ms = loop_lag_bound_ms(seen.stamp_source == "kernel")
    text = f"the client's loop was {lag_ms:.1f} ms late at p99, with {seen.stamp_source} stamps"
    return graded(Code.CLIENT_LAG, lag_ms, bound_ms, LOOP_LAG_INVALID_MS, text)


def _client_cpu(seen: Evidence) -> list[Reason]:
    share = seen.busiest_cpu_share
    if share is None:
        return []
    text = f"a process of the client was busy for {share:.0%} of the window; one loop has one core"
    return graded(Code.CLIENT_CPU, share, CLIENT_CPU_DEGRADED, None, text)


def _arrivals_unsent(seen: Evidence) -> list[Reason]:
    due = seen.arrivals_due or 0
    text = f"{seen.arrivals_unsent} of {due} arrivals still waited for a place at the end"
    share = seen.arrivals_unsent / max(due, 1)
    return graded(Code.ARRIVALS_UNSENT, share, UNSENT_DEGRADED, UNSENT_INVALID, text)


def _coalesced(seen: Evidence) -> list[Reason]:
    share = seen.first_token_coalesced_share
    if share is None or seen.stamp_source != "read":
        return []
    text = f"{share:.0%} of first tokens were read together with later ones, without kernel stamps"
    return graded(Code.COALESCED_FIRST_TOKENS, share, COALESCED_FIRST_DEGRADED, None, text)


def _little(seen: Evidence) -> list[Reason]:
    residual, noise = seen.little_residual, seen.little_noise or 0.0
    if residual is None:
        return []
    text = f"the gauge of open requests is {residual:+.1%} off the records"
    bounds = max(LITTLE_DEGRADED, noise), max(LITTLE_INVALID, noise)
    return graded(Code.LITTLE_RESIDUAL, abs(residual), *bounds, text)


def _token_mismatch(seen: Evidence) -> list[Reason]:
    share = seen.input_mismatch
    if share is None:
        return []
    text = (
        f"prompts are {share:.1%} off their intended length in the median, by server count; "
        "say whose tokens to count in (bench --tokenizer PATH, or workload.tokenizer in a recipe)"
    )
    return graded(Code.TOKEN_MISMATCH, share, INPUT_MISMATCH_DEGRADED, None, text)


def _output_mismatch(seen: Evidence) -> list[Reason]:
    share = seen.output_mismatch
    if share is None:
        return []
    text = f"{share:.1%} of the answers are not as long as asked, although their end is ignored"
    return graded(Code.OUTPUT_MISMATCH, share, OUTPUT_MISMATCH_DEGRADED, None, text)


LOAD_RULES: tuple[Callable[[Evidence], list[Reason]], ...] = (
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
    _token_mismatch,
    _output_mismatch,
)
