"""An engine that answers well and has one thing wrong with it, for tests of what is said then.

`python fake_engine.py --port N --fault NAME`; the faults are the cases of `Faults`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

DIES_AT = 8
"""Requests begun: one before the load, and five at once in it."""
PRINTS = threading.Lock()
PAGE = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running {running}
# TYPE vllm:request_success_total counter
vllm:request_success_total {requests}
"""


class Faults(StrEnum):
    """What may be wrong."""

    NO_PAGE = "no-page"
    HTML = "html"
    HANGS = "hangs"
    STALLS = "stalls"
    FLOODS = "floods"
    DIES = "dies"
    REFUSES = "refuses"
    OTHER_VERSION = "other-version"
    PORT_TAKEN = "port-taken"
    NO_GPU = "no-gpu"
    NO_PERMISSION = "no-permission"


LAST_WORDS = {
    Faults.PORT_TAKEN: "OSError: [Errno 98] Address already in use",
    Faults.NO_GPU: "torch.AcceleratorError: CUDA error: invalid device ordinal",
    Faults.NO_PERMISSION: "Unable to open /dev/kfd read-write: Permission denied",
}
"""Of those that end before they serve."""
VERSION = "0.26.0+cu129"


class Handler(BaseHTTPRequestHandler):
    """OpenAI's completions, four tokens an answer, counted by chunk."""

    protocol_version = "HTTP/1.1"
    fault: Faults
    served = count(1)
    pages = count(1)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing but what a fault says is printed."""

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self._page()
        elif self.path == "/v1/models":
            self._answer(200, json.dumps({"data": [{"id": "fake", "max_model_len": 4096}]}))
        elif self.path == "/version" and self.fault is Faults.OTHER_VERSION:
            self._answer(200, json.dumps({"version": VERSION}))
        else:
            self._answer(200 if self.path == "/health" else 404, "")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number = next(self.served)
        if self.fault is Faults.FLOODS:
            with PRINTS:
                sys.stderr.write("WARNING a block of 17 tokens was split\n" * 2000)
                sys.stderr.flush()
        if self.fault is Faults.DIES and number >= DIES_AT:
            print("EngineDeadError: EngineCore encountered an issue", flush=True)
            os._exit(9)
        if not asked.get("stream"):
            usage = {"prompt_tokens": 1, "completion_tokens": 1}
            self._answer(200, json.dumps({"choices": [{"text": "a"}], "usage": usage}))
            return
        self._stream(len(str(asked["prompt"]).split()), asked["max_tokens"])

    def _stream(self, prompt: int, tokens: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for done in range(1, tokens + 1):
            usage = {"prompt_tokens": prompt, "completion_tokens": done}
            finish = "length" if done == tokens else None
            choice = {"index": 0, "text": " a", "finish_reason": finish}
            event = json.dumps({"choices": [choice], "usage": usage})
            self.wfile.write(f"data: {event}\n\n".encode())
            time.sleep(0.01)
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _page(self) -> None:
        if self.fault is Faults.NO_PAGE:
            self._answer(404, "")
        elif self.fault is Faults.HTML:
            self._answer(200, "<html><body>Sign in</body></html>")
        elif self.fault is Faults.HANGS or (self.fault is Faults.STALLS and next(self.pages) > 1):
            threading.Event().wait(60)
        else:
            self._answer(200, PAGE.format(running=0, requests=0))

    def _answer(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    """Has room for all who come at once: whom the system turns away asks again a second later."""

    request_queue_size = 128
    daemon_threads = True


def main() -> None:
    """Serve until ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--fault", type=Faults, required=True)
    given = parser.parse_args()
    if given.fault is Faults.REFUSES:
        parser.error("unrecognized arguments: --no-such-flag 1")
    if given.fault in LAST_WORDS:
        print("INFO 01-02 03:04:05 starting", LAST_WORDS[given.fault], sep="\n")
        sys.exit(1)
    Handler.fault = given.fault
    Server(("127.0.0.1", given.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
