"""Who listens on a port: read from a copy of /proc's form, and once from the real one."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest

from inferometer.observe import listening
from inferometer.observe.listening import engine_listening
from inferometer.observe.processes import PROC

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  inode\n"
ROW = "   0: {local}:{port:04X} 00000000:0000 {state} 0:0 00:0 0 1000 0 {inode} 1 0 100 0 0 10 0\n"
ANY, LOOP, OTHER = "00000000", "0100007F", "0A00000A"
LOOP6 = "00000000000000000000000001000000"
URL = "http://127.0.0.1:8002"


def process(proc: Path, pid: int, parent: int, *files: str) -> None:
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} (vllm) S {parent} {pid} {pid} 0 -1 0 0 0 0 0 1 1 0 0\n")
    for number, file in enumerate(files):
        (folder / "fd" / str(number)).symlink_to(file)


def sockets(proc: Path, *rows: tuple[str, int, str, int], name: str = "tcp") -> None:
    (proc / "net").mkdir(exist_ok=True)
    told = (ROW.format(local=at, port=to, state=st, inode=node) for at, to, st, node in rows)
    (proc / "net" / name).write_text(HEAD + "".join(told))


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """10 serves HTTP, 11 below it has the GPU; 20 is a proxy, 30 a stranger that we may not see."""
    process(tmp_path, 10, 1, "/dev/null", "socket:[77]")
    process(tmp_path, 11, 10, "/dev/nvidiactl", "/dev/nvidia0", "socket:[78]")
    process(tmp_path, 20, 1, "socket:[88]")
    process(tmp_path, 30, 1)
    (tmp_path / "30" / "fd").rmdir()
    return tmp_path


@pytest.mark.parametrize(
    "row", [(LOOP, 8002, "0A", 77), (ANY, 8002, "0A", 77)], ids=["its address", "every address"]
)
def test_what_listens_and_whose_child_has_a_gpu_is_the_engine(
    proc: Path, row: tuple[str, int, str, int]
) -> None:
    sockets(proc, row)
    assert engine_listening(URL, proc) == {10}
    assert engine_listening("http://127.0.0.1:8003", proc) == frozenset()


def test_sixteen_byte_addresses_are_read(proc: Path) -> None:
    sockets(proc, (LOOP6, 8002, "0A", 77), name="tcp6")
    found = list(listening._listeners(8002, proc))
    assert [(str(address), inode) for address, inode in found] == [("::1", "77")]


def test_a_proxy_holds_no_gpu_and_is_no_engine(proc: Path) -> None:
    sockets(proc, (LOOP, 8002, "0A", 88))
    assert engine_listening(URL, proc) == frozenset()
    process(proc, 21, 20, "/dev/kfd")
    assert engine_listening(URL, proc) == {20}


@pytest.mark.parametrize(
    "row",
    [
        (LOOP, 8002, "01", 77),  # a connection, no listener
        (OTHER, 8002, "0A", 77),  # at another address only
        (LOOP, 8002, "0A", 99),  # of a process that we may not look into
    ],
)
def test_none_is_found_where_none_is_to_be_seen(proc: Path, row: tuple[str, int, str, int]) -> None:
    sockets(proc, row)
    assert engine_listening(URL, proc) == frozenset()


def test_the_nearest_address_counts(proc: Path) -> None:
    sockets(proc, (ANY, 8002, "0A", 88), (LOOP, 8002, "0A", 77))
    assert engine_listening(URL, proc) == {10}


def test_another_machine_is_not_looked_for_here(proc: Path, no_address: str) -> None:
    sockets(proc, (ANY, 8002, "0A", 77))
    assert engine_listening("http://192.0.2.1:8002", proc) == frozenset()
    assert engine_listening(f"http://{no_address}:8002", proc) == frozenset()


def test_a_system_without_proc_finds_none(tmp_path: Path) -> None:
    assert engine_listening(URL, tmp_path) == frozenset()


def test_a_real_socket_is_found_and_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    if not (PROC / "net" / "tcp").exists():
        pytest.skip("no /proc/net/tcp here")
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://localhost:{server.getsockname()[1]}"
        assert engine_listening(url) == frozenset()
        monkeypatch.setattr(listening, "_GPU", re.compile("socket:"))
        assert engine_listening(url) == {os.getpid()}
