"""The referee of every timing claim: a server that logs what it sent and when (truthserver.c)."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "shared" / "tools" / "truthserver.c"
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Past any proxy of the environment."""


@dataclass(frozen=True)
class Truth:
    """What the referee wrote of one stream; times on CLOCK_MONOTONIC.

    `chunk_ns` are taken just before each write, `end_ns` after the last one.
    """

    accept_ns: int
    request_ns: int
    chunk_ns: tuple[int, ...]
    end_ns: int


@dataclass
class Referee:
    """A running truthserver. Its log is complete once it has stopped."""

    port: int
    log: Path
    process: subprocess.Popen[str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def settle(self) -> None:
        """Wait until it has noticed that nobody listens to its streams any more."""
        patience = time.monotonic() + 60
        while time.monotonic() < patience:
            with DIRECT.open(self.url + "/metrics", timeout=60) as page:
                series = [line for line in page if line.startswith(b"vllm:num_requests_running")]
            if all(line.split()[-1] == b"0" for line in series):
                return
            time.sleep(0.01)
        pytest.fail("the truthserver still has streams under way")

    def stop(self) -> dict[str, Truth]:
        """End the server and read its log, by request id."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)
        truths = {}
        for line in self.log.read_text().splitlines()[1:]:
            _, request_id, _, accept_ns, request_ns, chunks, end_ns = line.split(",")
            stamps = tuple(int(stamp) for stamp in chunks.split(";") if stamp)
            truths[request_id] = Truth(int(accept_ns), int(request_ns), stamps, int(end_ns))
        return truths


def build_referee(folder: Path) -> Path:
    """Compile the truthserver; the test is skipped where that cannot be."""
    if not SOURCE.is_file():
        pytest.skip("no truthserver source beside this checkout (shared/tools)")
    if which("cc") is None:
        pytest.skip("no C compiler to build the truthserver with")
    binary = folder / "truthserver"
    subprocess.run(["cc", "-O2", "-o", str(binary), str(SOURCE)], check=True, timeout=300)
    return binary


@contextmanager
def running_referee(binary: Path, log: Path) -> Iterator[Referee]:
    """Start it on a free port, and end it."""
    for _ in range(5):  # another process may take the free port first
        port = free_port()
        argv = [str(binary), "--port", str(port), "--log", str(log)]
        process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        if process.stderr.readline().startswith("truthserver: http"):
            break
        process.communicate()
    else:
        pytest.fail("the truthserver found no free port")
    with process:
        yield Referee(port, log, process)
        process.terminate()


@contextmanager
def refused_port() -> Iterator[int]:
    """A port at which nobody listens as long as this lasts: it is bound, so that nobody else gets
    it, and no client that leaves from a free port can be given that one and meet itself.
    """
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        yield port


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
