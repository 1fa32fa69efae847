"""Does anything keep the wall clock right: what the kernel says by adjtimex(2). Linux only."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

UNSYNCHRONIZED = 5  # TIME_ERROR of timex.h
MICRO = 1e-6


class _Timex(ctypes.Structure):
    """The head of `struct timex`; the kernel writes behind it too, hence the room."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("room", ctypes.c_byte * 512),
    )


def clock_state(ask: Callable[[], tuple[int, int]] | None = None) -> str | None:
    """`synchronized, off by 0.004 s at most`, or that nothing keeps it; None where unknown.

    `ask` gives the state and the largest error in µs; it raises OSError.
    """
    try:
        state, most_us = (ask or _adjtimex)()
    except (OSError, AttributeError):
        return None
    if state < 0:
        return None
    if state == UNSYNCHRONIZED:
        return "not synchronized"
    return f"synchronized, off by {most_us * MICRO:.3f} s at most"


def _adjtimex() -> tuple[int, int]:
    """Reading alone needs no permission. AttributeError where the system has no such call."""
    timex = _Timex()
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    return int(state), int(timex.maxerror)
