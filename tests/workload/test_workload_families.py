"""Every workload is called by what it is."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from inferometer.core import AgenticCoding, OtherSessions
from inferometer.errors import InputError
from inferometer.plan import digest
from inferometer.run.jobs import AdHoc, Overrides, jobs_of_flags
from inferometer.workload import SessionWriter, drawn_sessions, family_of

WEKA = {
    "id": "a",
    "block_size": 64,
    "hash_id_scope": "local",
    "requests": [{"t": 0, "type": "n", "in": 70, "out": 3, "hash_ids": [0], "api_time": 1.0}],
}


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("synthetic:quickstart", "agentic"),
        ("synthetic:corpus?sessions=3", "agentic"),
        ("chat:turns=3,isl=10,osl=5", "chat"),
        ("lengths:isl=10,osl=5", "lengths"),
        ("prefix-groups:groups=2,prefix=64,isl=10,osl=5", "prefix-groups"),
    ],
)
def test_made_workloads_are_called_by_their_kind(text: str, family: str) -> None:
    assert family_of(text) == family


def test_files_are_called_by_their_format(tmp_path: Path) -> None:
    weka, mooncake, azure = (tmp_path / name for name in ("w.json", "m.jsonl", "a.csv"))
    weka.write_text(json.dumps(WEKA))
    mooncake.write_text('{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": []}')
    azure.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,10,2\n")
    assert [family_of(str(path)) for path in (weka, mooncake, azure)] == [
        "agentic",
        "mooncake",
        "azure",
    ]
    assert family_of(str(tmp_path)) == "sessions", "of several families"
    with pytest.raises(InputError, match="no such file"):
        family_of(str(tmp_path / "none"))


@pytest.mark.parametrize(("said", "family"), [("chat", "chat"), (None, "sessions")])
def test_our_own_format_says_it_of_itself(tmp_path: Path, said: str | None, family: str) -> None:
    stream = io.BytesIO()
    writer = SessionWriter(stream, said)
    for session in drawn_sessions("chat:turns=3,isl=10,osl=5", 1, 2) or ():
        writer.write(session)
    path = tmp_path / "s.jsonl"
    path.write_bytes(stream.getvalue())
    assert family_of(str(path)) == family


AD_HOC = AdHoc("bench", "external", "m", "fp8", "external", "h200", 1, AgenticCoding(), None)


def test_the_label_of_a_point_moves_neither_its_plan_nor_its_digest() -> None:
    from_chat, agentic = (
        jobs_of_flags(AD_HOC, (1,), Overrides({"sessions": text}, {}))[0]
        for text in ("chat:turns=3,isl=10,osl=5", "synthetic:quickstart")
    )
    assert agentic.point.scenario == AgenticCoding()
    assert from_chat.point.scenario == OtherSessions("chat")
    assert (from_chat.point.scenario.label, from_chat.point.id) == ("chat", "bench_chat_tp1_c1")
    assert from_chat.plan.workload.kind == "agentic"
    unnamed = replace(from_chat.point, scenario=AgenticCoding())
    assert digest(unnamed, from_chat.plan) == from_chat.digest
