"""Whose is a port of this machine: the processes of an engine that was up already, from /proc.

What listens may only pass requests on (a proxy, a tunnel, a container's forwarder). So it is taken
for the engine only where it, or what belongs to it, holds a GPU open. Finds what the user's own
rights let it see, and nothing of another network namespace.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from urllib.parse import urlsplit

from inferometer.observe.processes import PROC, family

LISTEN = "0A"
"""State of a socket in /proc/net/tcp, see proc(5)."""
_GPU = re.compile(r"/dev/(nvidia[0-9]+|kfd|dri/renderD[0-9]+)$")
Address = IPv4Address | IPv6Address


def engine_listening(url: str, proc: Path = PROC) -> frozenset[int]:
    """The processes that listen where `url` points, if it is here and they hold a GPU open, or what
    belongs to them does; else none.
    """
    inodes = _sockets(_addresses(url), _port(url), proc)
    wanted = {f"socket:[{inode}]" for inode in inodes}
    if not wanted:
        return frozenset()
    found = frozenset(pid for pid in _pids(proc) if not wanted.isdisjoint(_open(pid, proc)))
    held = (file for pid in family(found, proc) for file in _open(pid, proc))
    return found if found and any(map(_GPU.match, held)) else frozenset()


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def _addresses(url: str) -> set[Address]:
    """Addresses of the URL's host that are this machine's own; none where it is another."""
    try:
        told = socket.getaddrinfo(urlsplit(url).hostname, None, type=socket.SOCK_DGRAM)
    except OSError:
        return set()
    return {ip_address(str(to[0]).partition("%")[0]) for kind, *_, to in told if _ours(kind, to)}


def _ours(kind: int, to: tuple[object, ...]) -> bool:
    """Only a machine's own addresses can be bound."""
    with socket.socket(kind, socket.SOCK_DGRAM) as sock:
        try:
            sock.bind((to[0], 0, *to[2:]))
        except OSError:
            return False
    return True


def _sockets(addresses: set[Address], port: int, proc: Path) -> set[str]:
    """Inodes of what listens on the port at one of the addresses, or else at any."""
    exact, anywhere = set(), set()
    for address, inode in _listeners(port, proc):
        if address in addresses:
            exact.add(inode)
        elif address.is_unspecified:
            anywhere.add(inode)
    return exact or (anywhere if addresses else set())


def _listeners(port: int, proc: Path) -> Iterator[tuple[Address, str]]:
    for name in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            host, _, number = fields[1].partition(":")
            if fields[3] == LISTEN and int(number, 16) == port:
                yield _address(host), fields[9]


def _address(digits: str) -> Address:
    """Of its hex form: words of four bytes, each in the machine's own order (little-endian)."""
    packed = bytes.fromhex(digits)
    straight = b"".join(packed[i : i + 4][::-1] for i in range(0, len(packed), 4))
    found = ip_address(straight)
    return getattr(found, "ipv4_mapped", None) or found


def _pids(proc: Path) -> Iterator[int]:
    return (int(folder.name) for folder in proc.iterdir() if folder.name.isdecimal())


def _open(pid: int, proc: Path) -> Iterator[str]:
    """What a process has open; nothing of one that is gone, or not ours to look into."""
    try:
        links = list((proc / str(pid) / "fd").iterdir())
    except OSError:
        return
    for link in links:
        try:
            yield str(link.readlink())
        except OSError:
            continue
