"""The value types that pass every seam. Imports nothing of ours, does nothing, knows no file.

Units: times are integer nanoseconds of CLOCK_MONOTONIC (`_ns`) on the way, seconds (`_s`) in what
is declared and in results; counts are tokens. Unknown is None, never 0.
"""

from inferometer.core.deployment import (
    TRANSFERS,
    DeploymentSettings,
    ExternalFile,
    KvTransfer,
    Role,
    RoleLaunch,
    SideProcess,
    launch_name,
)
from inferometer.core.gpu import Gpu, GpuReading, GpuRelease, GpuReport, PowerField, Throttle
from inferometer.core.plan import (
    Arrival,
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
    Slo,
    Verdict,
    VerdictLevel,
)
from inferometer.core.session import Prompt, Request, Session, Turn

__all__ = [
    "TRANSFERS",
    "AgenticCoding",
    "Arrival",
    "Arrivals",
    "ClientReport",
    "ClientSettings",
    "DeploymentSettings",
    "EngineTotals",
    "Exchange",
    "ExternalFile",
    "FixedSeqLen",
    "Gpu",
    "GpuReading",
    "GpuRelease",
    "GpuReport",
    "KvOffload",
    "KvTransfer",
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
    "Role",
    "RoleLaunch",
    "Router",
    "RouterPlan",
    "Sample",
    "Scenario",
    "Session",
    "SideProcess",
    "Slo",
    "Status",
    "Throttle",
    "Turn",
    "Verdict",
    "VerdictLevel",
    "Window",
    "WorkloadSettings",
    "launch_name",
]
