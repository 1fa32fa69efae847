"""The value types that pass every seam. Imports nothing of ours, does nothing, knows no file.

Units: times are integer nanoseconds of CLOCK_MONOTONIC (`_ns`) on the way, seconds (`_s`) in what
is declared and in results; counts are tokens. Unknown is None, never 0.
"""

from inferometer.core.gpu import Gpu, GpuReading, GpuReport, PowerField, Throttle
from inferometer.core.plan import (
    ClientSettings,
    LaunchPlan,
    Origin,
    RouterPlan,
    WorkloadSettings,
)
from inferometer.core.point import (
    AgenticCoding,
    FixedSeqLen,
    KvOffload,
    MultiNode,
    Parallelism,
    Point,
    Pool,
    Router,
    Scenario,
)
from inferometer.core.record import (
    Arrivals,
    Exchange,
    Phase,
    Record,
    Sample,
    Status,
    Window,
)
from inferometer.core.result import (
    ClientReport,
    EngineTotals,
    MetricsReport,
    Reason,
    Result,
    Verdict,
    VerdictLevel,
)
from inferometer.core.session import Prompt, Request, Session, Turn

__all__ = [
    "AgenticCoding",
    "Arrivals",
    "ClientReport",
    "ClientSettings",
    "EngineTotals",
    "Exchange",
    "FixedSeqLen",
    "Gpu",
    "GpuReading",
    "GpuReport",
    "KvOffload",
    "LaunchPlan",
    "MetricsReport",
    "MultiNode",
    "Origin",
    "Parallelism",
    "Phase",
    "Point",
    "Pool",
    "PowerField",
    "Prompt",
    "Reason",
    "Record",
    "Request",
    "Result",
    "Router",
    "RouterPlan",
    "Sample",
    "Scenario",
    "Session",
    "Status",
    "Throttle",
    "Turn",
    "Verdict",
    "VerdictLevel",
    "Window",
    "WorkloadSettings",
]
