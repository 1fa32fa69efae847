"""A server that costs next to nothing, so that the client is the limit, and says when it wrote.

It answers every POST with a stream of chunks rendered beforehand, written by a timetable; nothing
of the request is looked at but its length and its id. It is no engine and models none. Times are
CLOCK_MONOTONIC ns, taken just before each write. It is told what to write, and asked what it wrote,
through a pipe, whose end ends it.

    python -m inferometer.engine.nullserver PIPE
"""

from __future__ import annotations

import gc
import heapq
import resource
import select
import socket
import sys
import time
from array import array
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from inferometer.engine.nullplan import Account, Timetable

BACKLOG = 8192
READ_BYTES = 1 << 18
MOST_EVENTS = 256
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
EVENT = (
    '{"id":"null","object":"chat.completion.chunk","created":1,"model":"null",'
    '"choices":[{"index":0,"delta":%s,"finish_reason":%s}]}'
)
USAGE = (
    '{"id":"null","object":"chat.completion.chunk","created":1,"model":"null","choices":[],'
    '"usage":{"prompt_tokens":64,"completion_tokens":%d,"total_tokens":%d}}'
)
SPREAD = 0.618_033_988_749_895
"""Steps of the golden ratio spread streams evenly over a gap, however many there are."""


@dataclass(slots=True, eq=False)
class Stream:
    """One answer under way."""

    sock: socket.socket
    name: str
    wrote_ns: array[int] = field(default_factory=lambda: array("q"))
    late_ns: int = 0


def event(text: str) -> bytes:
    """One event as one chunk of the body."""
    body = f"data: {text}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(body), body)


def opening() -> bytes:
    """Head and role, sent as the request has been read."""
    return HEAD + event(EVENT % ('{"role":"assistant","content":""}', "null"))


def ending(chunks: int) -> bytes:
    """What follows the last token, in the same write."""
    usage = USAGE % (chunks, 64 + chunks)
    return event(EVENT % ("{}", '"length"')) + event(usage) + event("[DONE]") + b"0\r\n\r\n"


class NullServer:
    """Serves one timetable after the other; `run` returns when the pipe's other end is gone."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self._listener.setblocking(False)
        self._epoll = select.epoll()
        self._epoll.register(self._listener.fileno(), select.EPOLLIN)
        self._epoll.register(pipe.fileno(), select.EPOLLIN)
        self._sockets: dict[int, socket.socket] = {}
        self._held: dict[int, bytes] = {}
        """What came of a head; the whole head while its body is awaited."""
        self._awaited: dict[int, int] = {}
        """Bytes of a body that are still to come; of a large one they are not kept."""
        self._due: list[tuple[int, int, Stream]] = []
        self._count = 0
        self._chunk = event(EVENT % ('{"content":" tok"}', "null"))
        self._give(Timetable(0, 0, 1))
        pipe.send(self._listener.getsockname()[1])

    def run(self) -> None:
        """Read, write, until told to end."""
        while True:
            wait_s = -1.0
            if self._due:
                wait_s = max(0.0, (self._due[0][0] - time.monotonic_ns()) / 1e9)
            for descriptor, _ in self._epoll.poll(wait_s, MOST_EVENTS):
                if descriptor == self._pipe.fileno():
                    if not self._told():
                        return
                elif descriptor == self._listener.fileno():
                    self._accept()
                else:
                    self._read(descriptor)
            self._write_due()

    def _told(self) -> bool:
        """A new timetable, or the wish for an account; False at the end of the pipe."""
        try:
            message = self._pipe.recv()
        except (EOFError, ConnectionError):
            return False
        if isinstance(message, Timetable):
            self._give(message)
        else:
            self._pipe.send(Account(self._wrote, self._late.tobytes()))
        return True

    def _give(self, table: Timetable) -> None:
        self._table = table
        self._wrote: dict[str, bytes] = {}
        self._late = array("q")
        self._opening, self._ending = opening(), ending(table.chunks)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets[sock.fileno()] = sock
            self._held[sock.fileno()] = b""
            self._epoll.register(sock.fileno(), select.EPOLLIN)

    def _read(self, descriptor: int) -> None:
        sock = self._sockets[descriptor]
        try:
            piece = sock.recv(READ_BYTES)
        except OSError:
            piece = b""
        if not piece:
            self._drop(sock)
            return
        if left := self._awaited.get(descriptor, 0):
            self._awaited[descriptor] = max(0, left - len(piece))
            if left > len(piece):
                return
            fields = self._held[descriptor]
        else:
            head, found, body = (self._held[descriptor] + piece).partition(b"\r\n\r\n")
            if not found:
                self._held[descriptor] = head
                return
            fields = head.lower()
            left = int(value_of(fields, b"content-length") or 0) - len(body)
            if left > 0:
                self._held[descriptor], self._awaited[descriptor] = fields, left
                return
        self._held[descriptor] = b""
        if not fields.startswith(b"post"):
            sock.sendall(NOT_FOUND)
            return
        self._begin(sock, value_of(fields, b"x-request-id").decode("ascii", "replace"))

    def _begin(self, sock: socket.socket, name: str) -> None:
        now_ns = time.monotonic_ns()
        self._count += 1
        spread = (self._count * SPREAD) % 1.0
        due_ns = now_ns + int(self._table.ttft_ns * (1.0 + spread))
        sock.sendall(self._opening)
        heapq.heappush(self._due, (due_ns, self._count, Stream(sock, name)))

    def _write_due(self) -> None:
        """Every chunk whose time has come."""
        due, chunk, now = self._due, self._chunk, time.monotonic_ns
        last, gap_ns = self._table.chunks - 1, self._table.gap_ns
        while due and due[0][0] <= (now_ns := now()):
            due_ns, number, stream = due[0]
            stream.late_ns = max(stream.late_ns, now_ns - due_ns)
            ends = len(stream.wrote_ns) >= last
            stream.wrote_ns.append(now_ns)
            try:
                # A write waits where the client reads nothing: then it is the client's limit.
                stream.sock.sendall(chunk + self._ending if ends else chunk)
            except OSError:
                heapq.heappop(due)
                continue
            if ends:
                heapq.heappop(due)
                self._wrote[stream.name] = stream.wrote_ns.tobytes()
                self._late.append(stream.late_ns)
            else:
                # One that is late by a gap does not make up for it: two writes at once would be
                # one read, and no fault of the client.
                next_ns = due_ns + gap_ns if now_ns - due_ns < gap_ns else now_ns + gap_ns
                heapq.heapreplace(due, (next_ns, number, stream))

    def _drop(self, sock: socket.socket) -> None:
        descriptor = sock.fileno()
        self._epoll.unregister(descriptor)
        del self._sockets[descriptor], self._held[descriptor]
        self._awaited.pop(descriptor, None)
        sock.close()


def value_of(head: bytes, name: bytes) -> bytes:
    """The value of a header of a head in lower case; empty where it has none."""
    _, found, rest = head.partition(b"\r\n" + name + b":")
    return rest.partition(b"\r\n")[0].strip() if found else b""


def main() -> None:
    """Serve the pipe whose descriptor is the argument."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.disable()  # nothing here makes cycles, and a collection would be a late write
    with Connection(int(sys.argv[1])) as pipe:
        NullServer(pipe).run()


if __name__ == "__main__":
    main()
