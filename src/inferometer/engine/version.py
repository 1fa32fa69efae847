"""Which version an engine says it is, in the places where engines say so."""

from __future__ import annotations

import http.client
from collections.abc import Callable

import orjson

from inferometer.engine.ask import page

ANSWER_S = 2.0
MOST_LETTERS = 100
PLACES = (
    ("/version", "version"),  # vLLM, TensorRT-LLM
    ("/server_info", "version"),  # SGLang
    ("/get_server_info", "version"),  # SGLang before 0.5.4
    ("/props", "build_info"),  # llama.cpp
)


def engine_version(
    base_url: str, read: Callable[[str, float], tuple[int, bytes]] = page
) -> str | None:
    """What the first place that answers has; None where none does."""
    for path, key in PLACES:
        try:
            status, body = read(f"{base_url}{path}", ANSWER_S)
            told = orjson.loads(body) if status == 200 else None
        except (OSError, http.client.HTTPException, orjson.JSONDecodeError):
            continue
        found = told.get(key) if isinstance(told, dict) else None
        if isinstance(found, str) and found.strip():
            return found.strip()[:MOST_LETTERS]
    return None
