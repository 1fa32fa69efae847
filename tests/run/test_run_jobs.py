"""From what a person names to jobs: overrides are rules, data has a digest, no prompt is shared."""

from __future__ import annotations

import hashlib
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sweep_setup import Files, make_sweep, write_files

from inferometer.core import AgenticCoding, FixedSeqLen
from inferometer.errors import InputError
from inferometer.plan import Selection, digest
from inferometer.run.binding import bind_workload
from inferometer.run.engines import root_url
from inferometer.run.job import Job
from inferometer.run.jobs import (
    NO_OVERRIDES,
    AdHoc,
    Declared,
    Overrides,
    jobs_of_configs,
    jobs_of_flags,
    scenario_of,
)
from inferometer.run.loadprocess import check_open_files
from inferometer.workload import sessions_digest


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return write_files(tmp_path / "config", seconds=1, agentic=True)


def declare(
    files: Files, overrides: Overrides = NO_OVERRIDES, told: list[str] | None = None
) -> Declared:
    heard: list[str] = [] if told is None else told
    masters, runners = [str(files.master)], str(files.runners)
    return jobs_of_configs(masters, runners, Selection(), overrides, heard.append)


AD_HOC = AdHoc(
    config="bench",
    image="external",
    model="org/Model",
    precision="fp8",
    framework="external",
    hardware="h200",
    gpus=4,
    scenario=FixedSeqLen(128, 16),
    max_model_len=None,
)


def ad_hoc(concurrencies: tuple[int, ...] = (1,), **workload: Any) -> tuple[Job, ...]:
    return jobs_of_flags(AD_HOC, concurrencies, Overrides(workload, {}))


def test_the_sources_are_every_file_that_was_read(files: Files) -> None:
    extra = files.master.parent / "recipes" / "hardware" / "h200.yml"
    extra.parent.mkdir()
    extra.write_text("- env:\n    A: b\n")
    told: list[str] = []
    declared = declare(files, told=told)
    paths = {files.master, files.runners, extra, files.master.parent / "recipes" / "test.yaml"}
    assert set(declared.sources) == {str(path) for path in paths}
    assert declared.sources[str(extra)] == hashlib.sha256(extra.read_bytes()).hexdigest()
    assert all(job.plan.env == {"A": "b"} for job in declared.jobs)
    assert told == []


def test_what_a_person_should_know_is_a_warning(files: Files) -> None:
    text = files.runners.read_text().replace("  sim-h200: [local]\n", "", 1)
    files.runners.write_text(text)
    told: list[str] = []
    declare(files, told=told)
    (warning,) = told
    assert warning.startswith(f"{files.master}:7: fixed.runner: ")
    assert "runner label 'sim-h200' is not defined" in warning


def test_an_override_changes_the_plan_and_says_so(files: Files) -> None:
    plain = declare(files).jobs[0]
    changed = declare(files, Overrides({"seed": 7, "requests": None}, {"temperature": 0.5})).jobs[0]
    assert (changed.plan.workload.seed, changed.plan.client.temperature) == (7, 0.5)
    assert changed.plan.workload.duration_s == plain.plan.workload.duration_s == 1
    assert changed.plan.origins["workload.seed"].layer == "command line"
    assert changed.plan.origins["client.temperature"].layer == "command line"
    assert changed.plan.origins["workload.requests"].layer != "command line"
    assert changed.digest != plain.digest
    assert changed.digest == digest(changed.point, changed.plan)


@pytest.mark.parametrize(
    ("given", "kept"),
    [({"duration_s": 9.0}, (9.0, None)), ({"requests": 9}, (None, 9))],
)
def test_a_duration_unsets_a_count_and_a_count_a_duration(
    given: dict[str, Any], kept: tuple[float | None, int | None]
) -> None:
    (job,) = ad_hoc(**given)
    assert (job.plan.workload.duration_s, job.plan.workload.requests) == kept


def test_an_override_that_cannot_be_is_refused_where_it_was_given() -> None:
    with pytest.raises(InputError) as error:
        ad_hoc(duration_s=-1.0, seed=-2)
    lines = [str(problem) for problem in error.value.problems]
    assert len(lines) == 2
    assert any(line.startswith("command line: workload.duration_s: ") for line in lines)
    assert any(line.startswith("command line: workload.seed: ") for line in lines)


def test_flags_become_one_point_a_concurrency() -> None:
    jobs = ad_hoc((1, 8))
    assert [job.point.id for job in jobs] == ["bench_128_16_tp4_c1", "bench_128_16_tp4_c8"]
    assert jobs[0].point.parallelism.gpus == 4
    assert jobs[0].point.model_prefix == "model"
    assert jobs[0].plan.argv == (), "nothing is started"
    assert jobs[0].digest != jobs[1].digest


def test_sessions_named_are_agentic() -> None:
    assert scenario_of(None, 5, 6) == FixedSeqLen(5, 6)
    assert scenario_of("traces/", 5, 6) == AgenticCoding()


def test_replay_needs_sessions_and_their_data_is_part_of_the_digest() -> None:
    agentic = replace(AD_HOC, scenario=AgenticCoding())
    with pytest.raises(InputError, match="no sessions to replay"):
        jobs_of_flags(agentic, (1,), NO_OVERRIDES)
    digests = set()
    for name in ("quickstart", "corpus"):
        sessions = f"synthetic:{name}"
        (job,) = jobs_of_flags(agentic, (1,), Overrides({"sessions": sessions}, {}))
        assert job.plan.workload.sessions_digest == sessions_digest(sessions)
        digests.add(job.digest)
    assert len(digests) == 2
    with pytest.raises(InputError, match="did you mean 'quickstart'"):
        jobs_of_flags(agentic, (1,), Overrides({"sessions": "synthetic:quickstrat"}, {}))


def blocks(job: Job, lane: int, play: int, block_size: int | None = None) -> set[int]:
    workload = bind_workload(job, block_size)
    session = workload.session(lane, play)
    ids: set[int] = set()
    for turn in session.turns:
        prompt = workload.prompt(session, turn, lane, play)
        assert prompt.tokens == turn.input_tokens
        assert block_size in (None, prompt.block_size)
        ids.update(prompt.blocks.tolist())
    assert ids
    return ids


def test_no_two_plays_points_or_repeats_share_a_block(files: Files) -> None:
    fixed, other, agentic = make_sweep(files).jobs
    repeat = replace(fixed, point=replace(fixed.point, repeat=1))
    for block_size in (None, 16):
        plays = [
            blocks(fixed, 0, 0, block_size),
            blocks(fixed, 0, 1, block_size),
            blocks(fixed, 1, 0, block_size),
            blocks(other, 0, 0, block_size),
            blocks(repeat, 0, 0, block_size),
            blocks(agentic, 0, 0, block_size),
            blocks(agentic, 1, 0, block_size),
        ]
        assert sum(map(len, plays)) == len(set().union(*plays))
    assert blocks(fixed, 0, 0) == blocks(fixed, 0, 0)


def test_a_first_play_warms_up(files: Files) -> None:
    fixed, _, agentic = make_sweep(files).jobs
    begin = bind_workload(fixed).start(0)
    assert (begin.skipped, begin.warmup) == (frozenset(), 1)
    workload = bind_workload(agentic)
    starts = [workload.start(lane) for lane in range(2)]
    for lane, start in enumerate(starts):
        turns = workload.session(lane, 0).turns
        assert 0 < len(start.skipped) < len(turns)
        # The turn before the start with its whole prefix, then the one of the recipe.
        assert start.warmup == 2
    assert workload.wrapped_lanes == 0
    assert bind_workload(agentic).notes() == workload.notes()


def test_one_seed_is_one_workload(files: Files) -> None:
    first, second = (bind_workload(make_sweep(files).jobs[2]) for _ in range(2))
    for lane, play in ((0, 0), (1, 3)):
        a, b = first.session(lane, play), second.session(lane, play)
        assert a.id == b.id
        assert all(
            np.array_equal(left.block_ids, right.block_ids)
            for left, right in zip(a.turns, b.turns, strict=True)
        )


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("http://host:8000", "http://host:8000"),
        ("http://host:8000/", "http://host:8000"),
        ("http://host:8000/v1", "http://host:8000"),
        (" https://host/a/v1/ ", "https://host/a"),
        ("http://[::1]:80", "http://[::1]:80"),
    ],
)
def test_the_root_of_an_engine(url: str, root: str) -> None:
    assert root_url(url) == root


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp:host:8000", "must start with http"),
        ("ftp://host", "must start with http"),
        ("http://", "names no host"),
        ("http://[::1", "is not a URL"),
        ("http://host:port", "not a number from 0 to 65535"),
        ("http://host:99999", "not a number from 0 to 65535"),
        ("http://host?x=1", "must not hold"),
        ("http://me:secret@host", "must not hold a user name"),
    ],
)
def test_what_is_no_url_of_an_engine(url: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as error:
        root_url(url)
    assert "http://HOST:PORT" in str(error.value)


def test_a_host_without_a_scheme_is_told_the_url_that_is_meant() -> None:
    for typed in ("host:8000", "127.0.0.1:8000/v1", "localhost"):
        with pytest.raises(InputError) as error:
            root_url(typed)
        assert str(error.value).endswith(f"expected the URL of an engine: http://{typed}")


@pytest.mark.parametrize("url", ["me:secret@host:8000", "http://me:secret@host"])
def test_a_password_in_a_url_is_not_repeated(url: str) -> None:
    with pytest.raises(InputError) as error:
        root_url(url)
    assert "secret" not in str(error.value)
    assert "[not kept]@host" in str(error.value)


MULTI = """\
pools:
  image: vllm/vllm-openai:v0.26.0
  model: Qwen/Qwen3-8B
  model-prefix: qwen3
  precision: fp8
  framework: dynamo-vllm
  runner: sim-h200
  multinode: true
  scenarios:
    fixed-seq-len:
    - isl: 256
      osl: 16
      search-space:
      - conc-list: [1]
        prefill: { num-worker: 1, tp: 8, ep: 1, dp-attn: false }
        decode: { num-worker: 0, tp: 8, ep: 1, dp-attn: false }
"""


def test_pools_beside_other_points_are_left_out_with_a_warning(files: Files) -> None:
    plain = declare(files)
    files.master.write_text(files.master.read_text() + MULTI)
    told: list[str] = []
    mixed = declare(files, told=told)
    assert [job.digest for job in mixed.jobs] == [job.digest for job in plain.jobs]
    assert told == ["pools: left out: multi-node deployments are planned, not started yet"]
    masters, runners = [str(files.master)], str(files.runners)
    selection = Selection(keys=("pools",))
    with pytest.raises(InputError, match="multi-node deployments are planned, not started yet"):
        jobs_of_configs(masters, runners, selection, NO_OVERRIDES, told.append)


def test_a_point_declared_twice_is_refused(files: Files) -> None:
    text = files.master.read_text()
    arm = next(line for line in text.splitlines() if "conc-list" in line)
    files.master.write_text(text.replace(arm, f"{arm}\n{arm}"))
    with pytest.raises(InputError, match="is declared twice"):
        declare(files)


def test_more_lanes_than_open_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1_000))
    check_open_files(468)  # 2 · 468 + 64 = 1,000
    with pytest.raises(InputError, match="may need 1002 open files in a process, and the limit"):
        check_open_files(469)
    check_open_files(2 * 468, workers=2)
