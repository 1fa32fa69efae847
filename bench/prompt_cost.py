"""What it costs to be ready: from the start of the command to the first request of a replay.

Runs `inferometer bench` against a server that answers nothing of worth, and takes what was spent
when the first streamed request arrives: seconds, CPU seconds, memory of all its processes, bytes
written. Then AIPerf on the same sessions and tokenizer, where it is installed: pairs, in turns.

    python bench/prompt_cost.py SESSIONS TOKENIZER [--aiperf BIN] [--pairs N] [--lanes N]

TOKENIZER is a folder with a tokenizer.json and its tokenizer_config.json. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

LIMIT_S = 600.0
LOOK_S = 0.05
PATIENCE = dict.fromkeys(
    ("AIPERF_DATASET_CONFIGURATION_TIMEOUT", "AIPERF_SERVICE_PROFILE_CONFIGURE_TIMEOUT"), "1800"
)
"""AIPerf gives its own preparation 300 s, which a busy machine does not keep."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """Until the first request. Memory is summed over the processes alive, pages that several of
    them share counted once (PSS); `largest_mb` is that of the largest process."""

    seconds: float
    cpu_s: float
    resident_mb: float
    largest_mb: float
    peak_mb: float
    written_mb: float


class _Server(ThreadingHTTPServer):
    """Notes when the first streamed request comes."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.came = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    """Lists a model; counts the words of what is asked; holds what is streamed."""

    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._answer({"object": "list", "data": [{"id": "model", "object": "model"}]})
        elif self.path == "/health":
            self._answer({})
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if body.get("stream"):
            self.server.came.set()
            time.sleep(LIMIT_S)
        text = body["messages"][-1]["content"]
        self._answer({"usage": {"prompt_tokens": len(text.split())}})

    def _answer(self, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


def _group(leader: int) -> Iterator[Path]:
    """The processes whose session is that of `leader`, as folders of /proc."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader:
            yield folder


class _Meter:
    """Sums over a session of processes; what ended ones had used is kept."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._used: dict[str, tuple[float, float]] = {}
        self.resident_mb = self.largest_mb = self.peak_mb = 0.0

    def look(self) -> None:
        resident = [0.0]
        for folder in _group(self._leader):
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                written = (folder / "io").read_text().split("write_bytes: ")[1].split()[0]
                shares = (folder / "smaps_rollup").read_text().split("\nPss:")[1].split()[0]
            except (OSError, IndexError):
                continue
            resident.append(int(shares) * 1024 / 1e6)
            cpu_s = (int(fields[11]) + int(fields[12])) / TICKS
            self._used[folder.name] = (cpu_s, int(written) / 1e6)
        self.resident_mb, self.largest_mb = sum(resident), max(resident)
        self.peak_mb = max(self.peak_mb, self.resident_mb)

    def cost(self, seconds: float) -> Cost:
        cpu_s, written_mb = (sum(column) for column in zip(*self._used.values(), strict=True))
        return Cost(seconds, cpu_s, self.resident_mb, self.largest_mb, self.peak_mb, written_mb)


def until_first_request(command: Sequence[str], folder: Path) -> Cost | str:
    """The cost of a command; text where it ended before its first request. URL is `{url}`."""
    server = _Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    log = folder / "log.txt"
    with log.open("wb") as output:
        start = time.monotonic()
        process = subprocess.Popen(
            [word.replace("{url}", url) for word in command],
            cwd=folder,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=os.environ | PATIENCE,
        )
        meter = _Meter(process.pid)
        try:
            while not server.came.wait(LOOK_S):
                meter.look()
                if process.poll() is not None or time.monotonic() - start > LIMIT_S:
                    return f"no request: {log.read_text(errors='replace')[-800:]}"
            seconds = time.monotonic() - start
            meter.look()
            return meter.cost(seconds)
        finally:
            for member in list(_group(process.pid)):
                os.kill(int(member.name), signal.SIGKILL)
            process.wait()
            server.shutdown()


def our_command(sessions: Path, tokenizer: Path, lanes: int) -> list[str]:
    """`inferometer bench` on the sessions."""
    return [
        *(sys.executable, "-m", "inferometer", "bench", "{url}", "--workload", str(sessions)),
        *("--tokenizer", str(tokenizer), "--concurrency", str(lanes), "--duration", "900"),
        *("--seed", "42", "--out", "run"),
    ]


def aiperf_command(binary: str, sessions: Path, tokenizer: Path, lanes: int) -> list[str]:
    """AIPerf's scenario on the same."""
    return [
        *(binary, "profile", "--model", "model", "--url", "{url}", "--endpoint-type", "chat"),
        *("--streaming", "--scenario", "inferencex-agentx-mvp", "--unsafe-override"),
        *("--custom-dataset-type", "weka_trace", "--input-file", str(sessions)),
        *("--tokenizer", str(tokenizer), "--concurrency", str(lanes)),
        *("--benchmark-duration", "900", "--random-seed", "42", "--ui", "none"),
    ]


def _measured(command: Sequence[str]) -> Cost | str:
    with tempfile.TemporaryDirectory() as folder:
        return until_first_request(command, Path(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sessions", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--aiperf", default=shutil.which("aiperf"))
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=8)
    given = parser.parse_args()
    what = given.sessions.resolve(), given.tokenizer.resolve(), given.lanes
    commands = {"inferometer": our_command(*what)}
    if given.aiperf:
        commands["aiperf"] = aiperf_command(given.aiperf, *what)
    found: dict[str, list[Cost | str]] = {name: [] for name in commands}
    for _ in range(given.pairs):
        for name, command in commands.items():
            found[name].append(_measured(command))
    report: dict[str, Any] = {
        name: [cost if isinstance(cost, str) else asdict(cost) for cost in costs]
        for name, costs in found.items()
    }
    if "aiperf" not in commands:
        report["aiperf"] = "skipped: no aiperf; name one with --aiperf"
    ratios = [
        theirs.seconds / ours.seconds
        for ours, theirs in zip(found["inferometer"], found.get("aiperf", []), strict=False)
        if isinstance(ours, Cost) and isinstance(theirs, Cost)
    ]
    if ratios:
        report["times_faster"] = statistics.median(ratios)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
