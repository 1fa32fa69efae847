"""Logs of engines: one for each known failure, a real start, and logs made to hurt."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from inferometer.engine import triage as module
from inferometer.engine.logreport import LogReport
from inferometer.engine.logtext import shape_of
from inferometer.engine.triage import STOP_MARK, LogReader, triage, triage_file
from inferometer.errors import InputError

FAILED = {
    "unsupported flag": (
        "usage: api_server.py [-h] [--model MODEL]",
        "api_server.py: error: unrecognized arguments: --cuda-graph-max-bs 64",
    ),
    "argument refused": ("launch: error: argument --tp-size: invalid int value: 'eight'",),
    "port taken": ("OSError: [Errno 98] Address already in use",),
    "model missing": (
        "huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error.",
        "OSError: acme/x is not a local folder and is not a valid model identifier listed on",
    ),
    "disk full": ("OSError: [Errno 28] No space left on device: '/root/.cache/vllm/x'",),
    "out of GPU memory": (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 18.71 GiB. GPU 0 has",
    ),
    "context too long for the KV cache": (
        "ValueError: The model's max seq len (1048576) is larger than the maximum number of tokens "
        "that can be stored in KV cache (794016).",
    ),
    "out of host memory": ("Out of memory: Killed process 4711 (python3) total-vm:97GB",),
    "graph capture killed": ("Capturing CUDA graphs (FULL): 31% worker 3 killed by SIGKILL",),
    "image not pulled": (
        "Error response from daemon: manifest for acme/x:9 not found: manifest unknown",
    ),
    "container not started": (
        "Error: container-init binary not found on the host: stat /usr/libexec/podman/catatonit:",
    ),
    "GPU missing": (
        "torch.AcceleratorError: CUDA error: invalid device ordinal",
        "GPU device may be out of range, do you have enough GPUs?",
    ),
    "driver": ("RuntimeError: CUDA error: an illegal memory access was encountered",),
    "collective communication": (
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:77, unhandled",
    ),
    "worker died": ("RuntimeError: Engine core initialization failed. See root cause above.",),
}


@pytest.mark.parametrize("name", FAILED)
def test_each_known_failure_is_named(name: str) -> None:
    report = log("INFO 01-02 03:04:05 starting", *FAILED[name], "INFO 01-02 03:04:06 bye")
    assert report.failures[0].name == name
    assert report.failures[0].text in FAILED[name]
    assert report.failures[0].advice


def test_every_failure_of_the_table_has_a_log() -> None:
    table = yaml.safe_load((Path(module.__file__).parent / "data" / "log.yaml").read_text())
    lines = yaml.safe_load((Path(__file__).parent / "failing_lines.yaml").read_text("utf-8"))
    assert {failure["name"] for failure in table["failures"]} == {*FAILED, *lines["failures"]}


@pytest.mark.parametrize(
    "line",
    [
        "Error: runc: runc create failed: unable to start container process: error during "
        "container init: error setting rlimits for ready process: error setting rlimit type 7: "
        "operation not permitted: OCI permission denied",
        "Error: crun: setrlimit `RLIMIT_NOFILE`: Operation not permitted: OCI permission denied",
        'runc create failed: exec: "vllm": executable file not found in $PATH',
        "Error: statfs /models: no such file or directory",
        "docker: invalid reference format.",
    ],
)
def test_a_container_that_a_runtime_will_not_start_is_named(line: str) -> None:
    (failure,) = log("INFO 01-02 03:04:05 starting", line).failures
    assert (failure.name, failure.text) == ("container not started", line)
    assert "site file" in failure.advice


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: No CUDA GPUs are available",
        "RuntimeError: No HIP GPUs are available",
        "nvidia-container-cli: device error: 9: unknown device: unknown.",
        'Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
        "Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=9",
        "Failed to initialize NVML: Insufficient Permissions",
        "Unable to open /dev/kfd read-write: Permission denied",
    ],
)
def test_a_gpu_that_is_not_there_or_not_ours_is_named(line: str) -> None:
    (failure,) = log("INFO 01-02 03:04:05 starting", line).failures
    assert (failure.name, failure.text) == ("GPU missing", line)
    assert "CUDA_VISIBLE_DEVICES" in failure.advice


def test_the_cause_is_named_before_its_consequence() -> None:
    report = log(*FAILED["worker died"], *FAILED["out of GPU memory"])
    assert [failure.name for failure in report.failures] == ["out of GPU memory", "worker died"]


def test_a_healthy_log_has_no_failure_and_an_unknown_one_shows_its_last_words() -> None:
    report = log(*["INFO step done"] * 50, "KeyError: 'frobnicator'", *["INFO step done"] * 3)
    assert report.failures == ()
    assert report.last == ("KeyError: 'frobnicator'",)


def test_a_real_start(shared_data: Path) -> None:
    report = triage_file(shared_data / "h200-vllm" / "server_qwen3-8b_8002.log")
    names = [phase.name for phase in report.phases]
    assert names == ["loading weights", "compiling", "capturing graphs", "serving"]
    assert [phase.at_s for phase in report.phases] == [57, 73, 101, 135]
    assert report.facts["kv_pool_tokens"] == 794_016
    assert report.facts["weights_bytes"] == pytest.approx(15.27 * (1 << 30))
    assert report.facts["graphs_bytes"] == pytest.approx(0.60 * (1 << 30))
    assert report.facts["compile_s"] == 37.86
    assert report.facts["largest_graph"] == 512
    assert report.failures == ()


def test_a_start_on_a_cpu_that_compiles_nothing() -> None:
    report = log(
        "(APIServer pid=1) INFO 11-30 09:15:37 [utils.py:9] non-default args: {'max_num_seqs': 4}",
        "(APIServer pid=1) WARNING 11-30 09:16:48 [vllm.py:1703] Enforce eager set, disabling "
        "torch.compile, CUDAGraphs, and JIT kernel warmup.",
        "(Worker pid=3) INFO 11-30 09:19:54 [cpu_model_runner.py:68] Starting to load model m...",
        "(Worker pid=3) INFO 11-30 09:19:55 [default_loader.py:501] Loading weights took 0.08 "
        "seconds",
        "(Worker pid=3) INFO 11-30 09:19:59 [cpu_worker.py:260] Explicitly set (1.0/23.54) GiB for "
        "KV cache on node 0.",
        "(EngineCore pid=2) INFO 11-30 09:19:59 [kv_cache_utils.py:2327] CPU KV cache size: "
        "262,144 tokens, Maximum concurrency for 4,096 tokens per request: 64.00x",
        "INFO:     Application startup complete.",
    )
    assert [(phase.name, phase.at_s) for phase in report.phases] == [
        ("loading weights", 257),
        ("serving", 262),
    ]
    assert report.facts == {
        "max_running": 4,
        "weights_s": 0.08,
        "kv_pool_bytes": 1 << 30,
        "kv_pool_tokens": 262_144,
    }


def test_a_start_of_llama_cpp_which_counts_from_its_own() -> None:
    report = log(
        "0.00.025.107 I srv  llama_server: initializing ...",
        "1.02.179.446 I srv    load_model: loading model '/models/x.gguf'",
        "1.09.899.989 I srv    load_model: initializing, n_slots = 4, n_ctx_slot = 1024",
        "2.00.941.747 I srv  llama_server: listening on http://127.0.0.1:28471",
        "2.01.244.590 I slot launch_slot_: id  3 | task 0 | processing task, is_child = 0",
        "2.01.404.836 I slot get_availabl: id  2 | task -1 | selected slot by LRU, t_last = -1",
    )
    assert [(phase.name, phase.at_s) for phase in report.phases] == [
        ("loading weights", 62),
        ("serving", 120),
    ]
    assert report.facts == {"max_running": 4}
    assert [(line.text, line.count) for line in report.routine] == [("engine statistics", 2)]


def test_the_pools_of_data_parallel_ranks_add_up_and_their_weights_do_not() -> None:
    report = log(
        *(f"(EngineCore_DP{rank} pid={rank}) GPU KV cache size: 1,000 tokens" for rank in range(8)),
        *(f"(EngineCore_DP{rank}) Model loading took 10.0 GiB and 2 seconds" for rank in range(8)),
        "[DP0 TP0] max_total_num_tokens=5000",
    )
    assert report.facts["kv_pool_tokens"] == 7 * 1_000 + 5_000
    assert report.facts["weights_bytes"] == 10 * (1 << 30)


SCRAPES = (
    '(APIServer pid=7) INFO:     127.0.0.1:59762 - "GET /metrics HTTP/1.1" 200 OK',
    'INFO:     127.0.0.1:52354 - "GET /health HTTP/1.1" 503 Service Unavailable',
    '[2026-11-30 09:16:48] INFO:     10.0.0.1:41 - "GET /v1/models HTTP/1.1" 200 OK',
    'INFO:     127.0.0.1:52354 - "GET /get_server_info HTTP/1.1" 404 Not Found',
    'INFO:     127.0.0.1:1 - "GET /prometheus/metrics HTTP/1.1" 200 OK',
    "srv  log_server_r: done request: GET /metrics 127.0.0.1 200",
)
REQUESTS = (
    'INFO:     127.0.0.1:59762 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    '[2026-11-30 09:16:48] INFO:     127.0.0.1:4 - "POST /v1/completions HTTP/1.1" 200 OK',
    "srv  log_server_r: done request: POST /v1/completions 127.0.0.1 200",
)
STATISTICS = (
    "(APIServer pid=1) INFO 11-30 09:31:06 [loggers.py:259] Engine 000: Avg prompt throughput: 1.0 "
    "tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 1 reqs",
    "[2026-11-30 09:16:48 TP0] Decode batch. #running-req: 8, #token: 9, gen throughput: 1.0",
    "[2026-11-30 09:16:48 TP0] Prefill batch. #new-seq: 1, #new-token: 9, #running-req: 3",
    "slot print_timing: id  3 | task 12 | prompt eval time =      10.00 ms",
)


def test_what_the_run_itself_asks_for_is_set_apart_and_no_flood() -> None:
    report = log(*SCRAPES * 300, *REQUESTS * 40, *STATISTICS * 30, "INFO ready", "KeyError: 'x'")
    assert report.repeated == ()
    counted = {line.text: line.count for line in report.routine}
    assert counted == {
        "scrapes and health probes": 300 * len(SCRAPES),
        "requests": 40 * len(REQUESTS),
        "engine statistics": 30 * len(STATISTICS),
    }
    assert sum(line.line_share for line in report.routine) == pytest.approx(
        1 - 2 / report.lines, abs=1e-9
    )
    assert report.last == ("INFO ready", "KeyError: 'x'")
    assert report.failures == ()


def test_requests_that_are_refused_are_a_flood_like_any_other() -> None:
    """Lines of a shape differ in their status alone, whichever comes first."""
    refused = REQUESTS[0].replace("200 OK", "400 Bad Request")
    failed = REQUESTS[0].replace("200 OK", "503 Service Unavailable")
    for lines in ((REQUESTS[0], refused, failed), (refused, failed, REQUESTS[0])):
        report = log(*lines * 100)
        assert {line.text: line.count for line in report.routine} == {"requests": 100}
        assert sum(line.count for line in report.repeated) == 200


def test_a_flood_behind_an_access_log_is_named_by_its_share_of_the_whole_log() -> None:
    report = log(*[SCRAPES[0]] * 600, *["WARNING block 7 split"] * 300, *map(str, "abcdefghij"))
    (line,) = report.repeated
    assert (line.text, line.count) == ("WARNING block # split", 300)
    assert line.line_share == pytest.approx(300 / 910)
    assert report.last == tuple("cdefghij")


def test_the_last_words_are_found_however_long_a_flood_goes_on_behind_them() -> None:
    report = log("INFO up", "KeyError: 'x'", *["WARNING again 5"] * 5000, *[SCRAPES[0]] * 5000)
    assert report.last == ("INFO up", "KeyError: 'x'")


def test_what_an_engine_says_of_its_own_end_is_no_failure() -> None:
    late = "EngineDeadError: EngineCore encountered an issue."
    report = log("INFO up", STOP_MARK, late, "bye")
    assert report.failures == ()
    assert report.last == ("INFO up",)
    assert [failure.name for failure in log(late, STOP_MARK).failures] == ["worker died"]


def test_one_warning_that_floods_a_log_is_named_with_its_shares() -> None:
    flood = [
        f"WARNING 11-30 01:22:{i % 60:02} [a.py:9] no tuned config for M={i}" for i in range(984)
    ]
    report = log(*flood, *(f"INFO {name}" for name in "abcdefghijklmnop"))
    (line,) = report.repeated
    assert line.text == "WARNING  [a.py:#] no tuned config for M=#"
    assert (line.count, line.line_share) == (984, 0.984)
    assert report.last[-1] == "INFO p"


def test_progress_bars_are_read_piece_by_piece() -> None:
    bar = "\r".join(f"\x1b[32mCapturing CUDA graphs: {i}%\x1b[0m" for i in range(100))
    report = log(bar)
    assert report.phase == "capturing graphs"
    assert report.repeated[0].count == 100


def test_a_day_that_ends_during_a_start() -> None:
    report = log("01-02 23:59:50 hello", "01-03 00:00:10 Application startup complete.")
    assert report.phases[0].at_s == 20


@given(st.lists(st.binary(max_size=300), max_size=40))
def test_any_bytes_are_a_log(lines: list[bytes]) -> None:
    report = triage(lines)
    assert report.lines == len(lines)
    assert report.bytes == sum(map(len, lines))


def test_a_log_of_endless_variety_is_held_in_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_SHAPES", 10)
    reader = LogReader()
    for number in range(1_000):
        reader.take(f"line {'x' * (number % 500)}".encode())
    assert len(reader._shapes) <= 11
    assert reader.report().lines == 1_000


def test_a_missing_log_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        triage_file(tmp_path / "server.log")


def test_the_shape_of_a_line() -> None:
    assert shape_of("2026-01-02 03:04:05,678 rank 3: 0xdeadbeef took 1.5 s") == "rank #: # took # s"


def log(*lines: str) -> LogReport:
    return triage([f"{line}\n".encode() for line in lines])
