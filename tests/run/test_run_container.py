"""A point whose engine runs in a container, before a runtime as strict as docker: what is pulled,
run, told and removed.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sweep_setup import Seen, make_sweep, write_files

from inferometer.core import LaunchPlan, RouterPlan
from inferometer.engine.container import Container
from inferometer.errors import EngineError
from inferometer.run.engines import running
from inferometer.run.job import Job
from inferometer.run.site import Site
from inferometer.run.sweep import run_sweep
from inferometer.store import RunDir

pytestmark = pytest.mark.sockets

HERE = Path(__file__).parent
RUNTIME = HERE.parent / "engine" / "fake_runtime.py"
IMAGE = "acme/engine:1"
DIGEST = "sha256:" + "ab" * 32
OWN = "sha256:" + "1d" * 32
SITE = Site(container=Container("docker", gpus="device=0,3", env={"HF_TOKEN": "hush"}))


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which `docker` is the strict runtime."""
    folder = tmp_path / "docker"
    folder.mkdir()
    script = folder / "docker"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {RUNTIME} {folder} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    (folder / "registry").write_text(f"{IMAGE} {OWN} acme/engine@{DIGEST}\n")
    return folder


def calls(state: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (state / "calls").read_text().splitlines()]


def job_of(folder: Path, **changes: Any) -> tuple[Job, LaunchPlan]:
    """A point, with a plan of ours for it."""
    (job,) = make_sweep(write_files(folder / "sweep", 1.0, (1,))).jobs
    words = (sys.executable, str(HERE / "fake_engine.py"), "--fault", "no-page", "--port", "{port}")
    return job, replace(job.plan, image=IMAGE, argv=words, **changes)


def test_a_point_is_measured_in_a_container_and_nothing_of_it_is_left(
    state: Path, tmp_path: Path
) -> None:
    job, plan = job_of(tmp_path)
    client = replace(plan.client, endpoint="completions", usage_every_chunk=True)
    workload = replace(
        plan.workload, requests=4, duration_s=None, warmup_requests_per_lane=0, length_ratio=1.0
    )
    plan = replace(plan, client=client, workload=workload)
    sweep = make_sweep(write_files(tmp_path / "again", 1.0, (1,)), "real")
    sweep = replace(sweep, jobs=(replace(job, plan=plan),), site=SITE)
    seen, run = Seen(), RunDir(tmp_path / "run")
    outcome = run_sweep(sweep, run, seen)
    assert seen.failures == {}
    (result,) = outcome.results
    assert result.counts["ok"] == 4
    assert run.point(job.point.id).client().image_digest == DIGEST
    asked = [call for call in calls(state) if call["argv"][0] != "inspect"]
    assert [call["argv"][0] for call in asked] == ["image", "pull", "image", "run", "rm"]
    name = asked[3]["argv"][asked[3]["argv"].index("--name") + 1]
    assert asked[4]["argv"] == ["rm", "--force", "--volumes", name]
    # Run is what was inspected, and a secret is where only its owner can read it.
    assert OWN in asked[3]["argv"]
    assert "hush" not in " ".join(asked[3]["argv"])
    assert asked[3]["env"]["HF_TOKEN"] == "hush"
    assert not list(state.glob("container-*"))


def started(job: Job, plan: LaunchPlan, folder: Path, site: Site = SITE) -> str:
    """Why it does not start, or what it says of its own death."""
    folder.mkdir(exist_ok=True)
    told: list[str] = []
    with (
        pytest.raises(EngineError) as caught,
        running(job.point, plan, folder, None, site, told.append),
    ):
        raise AssertionError("it started")
    return str(caught.value)


def test_what_goes_wrong_with_an_image_is_told_as_what_it_is(state: Path, tmp_path: Path) -> None:
    job, plan = job_of(tmp_path)
    said = started(job, replace(plan, image="acme/none:1"), tmp_path / "a")
    assert said.startswith("acme/none:1: cannot be pulled; ")
    assert "manifest unknown" in said
    said = started(job, replace(plan, argv=("no-such-engine", "serve")), tmp_path / "b")
    assert "the engine ended with exit code 127: docker: exec: not found" in said
    (state / "fate").write_text("oom")
    fat = replace(plan, argv=("/bin/sh", "-c", "kill -9 $$"))
    assert "exit code 137: out of host memory: the container's limit was reached" in started(
        job, fat, tmp_path / "c"
    )
    assert not list(state.glob("container-*"))


def test_processes_that_meet_on_loopback_are_not_kept_apart(state: Path, tmp_path: Path) -> None:
    job, plan = job_of(tmp_path)
    assert plan.router is None
    router = RouterPlan("r", "1", ("router",))
    site = Site(container=Container("docker", network="bridge"))
    said = started(job, replace(plan, router=router), tmp_path / "a", site)
    assert "use network: host" in said
    assert not (state / "calls").exists()


def test_a_launch_that_nobody_has_completed_is_not_started(tmp_path: Path) -> None:
    job, plan = job_of(tmp_path)
    words = ("/bin/sh", "-c", "echo {repo}/t.jinja {port+1} {models_dir}")
    said = started(job, replace(plan, argv=words), tmp_path / "a", Site())
    assert said.startswith("the engine needs {repo}, which nothing here says")
    given = Site(places={"repo": "/checkout"})
    started(job, replace(plan, argv=words), tmp_path / "b", given)
    assert "/checkout/t.jinja 2" in (tmp_path / "b" / "server.log").read_text()


def test_the_files_of_a_plan_are_where_it_says_that_they_are(tmp_path: Path) -> None:
    job, plan = job_of(tmp_path)
    words = ("/bin/sh", "-c", "cat {result_dir}/store.json")
    plan = replace(plan, argv=words, files={"store.json": "port {port+12000}"})
    started(job, plan, tmp_path / "a", Site())
    assert (tmp_path / "a" / "server.log").read_text().startswith("port 3")
