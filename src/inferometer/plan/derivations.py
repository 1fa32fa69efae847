"""Values that a recipe derives from a point, once for all engines. Pure; each says what it assumes.

Recipes reach these by name in expressions, so a formula is changed here and nowhere else.
"""

from __future__ import annotations

import math

from inferometer.errors import InputError


def next_pow2(n: int) -> int:
    """The smallest power of two that is at least `n` (n >= 1).

    Workload model: engines prepare (capture, compile) batch sizes as powers of two, and a batch is
    padded up to the next one prepared. A cap between two of them buys nothing.
    """
    if type(n) is not int or n < 1:
        raise InputError(f"next_pow2 takes a positive integer, got {n}")
    return int(1 << (n - 1).bit_length())


def sequence_cap(conc: int, fan_out: float) -> int:
    """Sequences the engine must admit at once: ceil(conc * fan_out), with fan_out >= 1.

    Workload model: `conc` lanes. A lane of fixed lengths has one request open, so fan_out is 1. A
    lane of agentic replay holds a session tree whose sub-agents run beside each other, so more than
    `conc` requests are open at times; 2 leaves room for it. With less, requests queue in the
    scheduler and the wait is charged to TTFT.
    """
    if type(conc) is not int or conc < 1:
        raise InputError(f"sequence_cap takes a positive integer conc, got {conc}")
    if fan_out < 1:
        raise InputError(f"sequence_cap takes a fan_out of 1 or more, got {fan_out}")
    return math.ceil(conc * fan_out)
