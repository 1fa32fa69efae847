"""What the metrics of power, GPUs and host are called on the page."""

from __future__ import annotations

from inferometer.report.figures import Field

MACHINE_FIELDS: tuple[Field, ...] = (
    Field("energy_j", "GPU energy", "J", "Power", "Board energy of the deployment's GPUs."),
    Field("power_w", "GPU power", "W", "Power", "Mean board power of the deployment."),
    Field("power_w_per_gpu", "GPU power per GPU", "W", "Power", "Mean board power of one GPU."),
    Field("j_per_output_token", "Energy per output token", "J", "Power", "Of all GPUs."),
    Field("j_per_input_token", "Energy per input token", "J", "Power", "Of all GPUs."),
    Field("j_per_total_token", "Energy per token", "J", "Power", "Input and output together."),
    Field("gpu_sm_clock_mhz", "SM clock", "MHz", "Machine", "Mean."),
    Field("gpu_temperature_c", "GPU temperature", "°C", "Machine", "Highest."),
    Field(
        "gpu_memory_used_bytes",
        "GPU memory used",
        "GB",
        "Machine",
        "Highest of one GPU.",
        "gigabytes",
    ),
    Field(
        "gpu_throttled_share",
        "Throttled",
        "%",
        "Machine",
        "Share of the window in which heat or hardware held a clock down.",
        "share",
    ),
    Field(
        "gpu_power_capped_share",
        "At the power limit",
        "%",
        "Machine",
        "Share of the window; normal at full load.",
        "share",
    ),
    Field(
        "gpu_shared_share",
        "GPU shared",
        "%",
        "Machine",
        "Share of the window with another process on a GPU of the deployment.",
        "share",
    ),
    Field(
        "host_other_cpu_share",
        "Cores taken by others",
        "%",
        "Machine",
        "CPU time of processes that are neither engine nor client.",
        "share",
    ),
    Field("engine_cpu_share", "Engine CPU", "%", "Machine", "Of all cores.", "share"),
    Field(
        "engine_resident_bytes",
        "Engine host memory",
        "GB",
        "Machine",
        "Most at a time, of its processes.",
        "gigabytes",
    ),
    Field(
        "engine_pinned_bytes",
        "Engine pinned memory",
        "GB",
        "Machine",
        "Most at a time that the system counts as locked or pinned.",
        "gigabytes",
    ),
    Field(
        "host_memory_taken_bytes",
        "Host memory taken",
        "GB",
        "Machine",
        "Of the whole machine, more than before the engine started; what a driver pinned too.",
        "gigabytes",
    ),
    Field("clock_step_s", "Wall clock moved", "s", "Machine", "Against the monotonic clock."),
)
