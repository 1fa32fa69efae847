"""How a point's prompts are written: the words of its tokenizer, and what the server adds to them.

The tokenizer is read in a process of its own, which is gone before the load begins. What the server
adds is computed from the chat template where there is one, and learned from two tiny requests in
any case: the server's count is the truth.
"""

from __future__ import annotations

import http.client
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import orjson

from inferometer.core import ClientSettings, Content, Dialogue, LaunchPlan, Prompt
from inferometer.engine.ask import page
from inferometer.errors import InputError, Problem
from inferometer.workload import (
    NO_TOKENIZER,
    WORDS,
    PromptRules,
    PromptText,
    calibrated,
    make_lexicon,
    paired,
)

FIT_S = 300.0
PROBE_S = 60.0
PROBES = (16, 48)
"""Tokens of ours in each of the two requests."""
TALK = (16, 8, 24)
"""Likewise in each message of the third, which only live replays need."""
_PROBE_ID = (1 << 60) - 1


def rules_of(plan: LaunchPlan) -> PromptRules:
    """The rules that the plan's tokenizer gives. Raises InputError where it gives none."""
    settings = plan.workload
    if settings.tokenizer == NO_TOKENIZER:
        return WORDS
    found = _fit(settings.tokenizer, settings.tokenizer_digest, plan.client.endpoint)
    ids = settings.prompt_form == "token_ids"
    return PromptRules(
        lexicon=make_lexicon(found["words"], found["token_ids"], found["starts"]),
        form=settings.prompt_form,
        # Nothing is put around token ids.
        head=0 if ids else found["head"],
        foot=0 if ids else found["foot"],
        notes={
            "prompt_words": float(len(found["words"])),
            "prompt_drift_max_tokens": float(found["drift_max"]),
            "prompt_drift_mean_tokens": float(found["drift_mean"]),
            "template_known": float(found["added_known"]),
        },
    )


_begun: dict[tuple[str, str], subprocess.Popen[bytes]] = {}
"""Fits under way that nobody has asked for yet, by tokenizer and endpoint."""


@contextmanager
def fitting(source: str | None, endpoint: str) -> Iterator[None]:
    """Inside, the fit of a tokenizer that will be wanted is under way; it ends with the block."""
    if source in (None, NO_TOKENIZER):
        yield
        return
    assert source is not None
    _begun[source, endpoint] = _begin(source, endpoint)
    try:
        yield
    finally:
        if (left := _begun.pop((source, endpoint), None)) is not None:
            _end(left)


def _begin(source: str, endpoint: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "inferometer.workload.tokenizer_fit", source, endpoint]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _ended(process: subprocess.Popen[bytes]) -> str:
    """Of a process that said nothing: one that takes too much memory is killed."""
    code = process.returncode
    if code >= 0:
        return f"its process ended with exit code {code}"
    return f"its process was ended by {signal.Signals(-code).name}"


def _end(process: subprocess.Popen[bytes]) -> None:
    with process:
        process.kill()


@lru_cache(8)
def _fit(source: str, digest: str | None, endpoint: str) -> dict[str, Any]:  # noqa: ARG001 - a key
    """What `tokenizer_fit` finds, once a command."""
    process = _begun.pop((source, endpoint), None) or _begin(source, endpoint)
    try:
        answer, errors = process.communicate(timeout=FIT_S)
        found: dict[str, Any] = orjson.loads(answer)
    except subprocess.TimeoutExpired:
        raise InputError(Problem(f"not read within {FIT_S:g} s", source)) from None
    except orjson.JSONDecodeError:
        last = errors.decode(errors="replace").strip().rpartition("\n")[2] or _ended(process)
        raise InputError(Problem(f"reading it failed: {last}", source)) from None
    finally:
        _end(process)
    if "error" in found:
        raise InputError(Problem(found["error"], source))
    return found


@dataclass(frozen=True, slots=True)
class _Server:
    client: ClientSettings
    base_url: str
    model: str

    def count(self, content: Content) -> int | None:
        """Tokens of a prompt by the server's usage; None where it does not say."""
        body: dict[str, Any] = {"model": self.model, "max_tokens": 1, "temperature": 0}
        texts = content.texts if isinstance(content, Dialogue) else (content,)
        if self.client.endpoint == "chat":
            roles = ("user", "assistant", "user")
            messages = [{"role": r, "content": t} for r, t in zip(roles, texts, strict=False)]
            path, body["messages"] = "chat/completions", messages
        else:
            joined = content.joined if isinstance(content, Dialogue) else content
            path, body["prompt"] = "completions", joined
        try:
            status, answer = page(f"{self.base_url}/v1/{path}", PROBE_S, orjson.dumps(body))
            counted = orjson.loads(answer)["usage"]["prompt_tokens"] if status == 200 else None
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
            return None
        return counted if type(counted) is int else None


def learned(
    rules: PromptRules, client: ClientSettings, base_url: str, model: str, live: bool = False
) -> PromptRules:
    """The rules with what this server adds, `live` to a conversation too. Asks nothing where no
    tokenizer is given.
    """
    if rules is WORDS:
        return rules
    server, bare = _Server(client, base_url, model), PromptText(_bare(rules))
    counted = [server.count(bare.render(_probe(tokens))) for tokens in PROBES]
    first, second = counted
    if first is None or second is None:
        return rules
    found = calibrated(rules, PROBES, (first, second))
    if not live:
        return found
    texts = tuple(str(bare.render(_probe(tokens))) for tokens in TALK)
    counted_talk = server.count(Dialogue(texts, (False, True, True)))
    return found if counted_talk is None else paired(found, sum(TALK), counted_talk)


def _bare(rules: PromptRules) -> PromptRules:
    return PromptRules(rules.lexicon, rules.form, 0, 0, {})


def _probe(tokens: int) -> Prompt:
    return Prompt(np.empty(0, np.int64), tokens, tokens, _PROBE_ID - tokens)
