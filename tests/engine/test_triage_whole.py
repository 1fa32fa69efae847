"""Whole short logs: the cause before what follows from it, the dress of lines, figures in the words
of many versions, and sound logs that name no failure.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from inferometer.engine.loglevel import level_of
from inferometer.engine.logreport import LogReport
from inferometer.engine.triage import triage

GIB = 1 << 30
LOGS: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "whole_logs.yaml").read_text("utf-8")
)["logs"]


def some(key: str) -> list[Any]:
    return [pytest.param(each, id=each["name"]) for each in LOGS if key in each]


@pytest.mark.parametrize("each", some("cause"))
def test_the_cause_is_named_and_not_what_followed(each: dict[str, Any]) -> None:
    report = read(each["log"])
    assert (report.ending.name if report.ending else None) == each["cause"]
    if "shows" in each:
        assert report.ending is not None
        assert each["shows"] in report.ending.text


@pytest.mark.parametrize("each", some("nothing"))
def test_a_sound_log_has_no_failure_at_all(each: dict[str, Any]) -> None:
    assert read(each["log"]).failures == ()


@pytest.mark.parametrize("each", some("phase"))
def test_how_far_it_came(each: dict[str, Any]) -> None:
    assert read(each["log"]).phase == each["phase"]


@pytest.mark.parametrize("each", some("facts"))
def test_the_figures_of_a_version(each: dict[str, Any]) -> None:
    facts = read(each["log"]).facts
    found = {
        name: value / GIB if name.endswith("_bytes") else value for name, value in facts.items()
    }
    assert found == pytest.approx(each["facts"])


@pytest.mark.parametrize("each", some("errors_have"))
def test_a_line_that_does_not_say_why_has_the_first_exception_beside_it(
    each: dict[str, Any],
) -> None:
    report = read(each["log"])
    assert report.ending is not None
    assert not report.ending.says_why
    assert any(each["errors_have"] in text for text in report.errors)


def test_the_first_exception_stands_before_the_last_faults() -> None:
    follow = [f"error of part {chr(97 + number)}" for number in range(9)]
    report = read("\n".join(["KeyError: 'frob'", '  File "/x/errors.py", line 3, in f', *follow]))
    assert report.errors == ("KeyError: 'frob'", *follow[-3:])


def test_a_warning_comes_behind_the_errors_and_before_the_worst_of_them() -> None:
    warned = "WARNING 01-02 10:00:00 [x.py:1] OSError: [Errno 28] No space left on device"
    died = "RuntimeError: Engine core initialization failed. See root cause above."
    full = "torch.OutOfMemoryError: CUDA out of memory."
    assert names(warned, died) == ["disk full", "worker died"]
    assert names(warned, full) == ["out of GPU memory", "disk full"]
    assert names(warned, "Application startup complete.") == []


def test_a_failure_that_is_said_again_behind_the_start_is_one_of_the_run() -> None:
    line = "RuntimeError: NCCL error: unhandled system error"
    report = read("\n".join([line, "Application startup complete.", "x", line]))
    assert report.ending is not None
    assert report.ending.line == 4


def test_a_number_told_by_the_way_counts_only_where_it_is_told_no_better() -> None:
    way = "Maximum concurrency for 1,000 tokens per request: 2.50x"
    better = "GPU KV cache size: 2,512 tokens"
    assert read(way).facts == {"kv_pool_tokens": 2_500}
    for lines in ([way, better], [better, way]):
        assert read("\n".join(lines)).facts == {"kv_pool_tokens": 2_512}


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("info 01-02 10:00:00 [x.py:1] torch", "quiet"),
        ("(worker_tp0 pid=1) warning 01-02 10:00:00 [x.py:1] a", "warning"),
        ("[w1206 04:17:18.5 processgroupnccl.cpp:1250] warning: a", "warning"),
        ("[01/02/2026-10:00:00] [trt-llm] [rank 3] [i] a", "quiet"),
        ("[tensorrt-llm][warning] a", "warning"),
        ("2026-01-02t10:00:00.123456z  info dynamo_llm::http: a", "quiet"),
        ("2026-01-02 10:00:00,123 - info - root a", "quiet"),
        ("time=2026-01-02t10:00:00z level=info source=x.go:1 msg=a", "quiet"),
        ('{"level": "warn", "msg": "a"}', "warning"),
        ("e1027 22:25:32.427556       1 proxy.go:268] a", ""),
        ("[atom info] 2026-01-02 10:00:00.1 - a", "quiet"),
        ("/usr/lib/x.py:63: futurewarning: a", "warning"),
        ("2026 [info] (process) error 06-09 [x.py:1] a", ""),
        ("2026 [info] (process) torch.outofmemoryerror: cuda out of memory", ""),
        ("2026 [info] (process) prompt: torch.outofmemoryerror: a", "quiet"),
        ("error: unrecognized arguments: --info", ""),
        ("runtimeerror: info", ""),
        ("", ""),
    ],
)
def test_the_innermost_level_counts(line: str, level: str) -> None:
    assert level_of(line) == level


def names(*lines: str) -> list[str]:
    return [failure.name for failure in read("\n".join(lines)).failures]


def read(text: str) -> LogReport:
    return triage(line.encode() for line in text.splitlines(keepends=True))
