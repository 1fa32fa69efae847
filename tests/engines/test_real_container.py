"""A point whose engine, the built-in one, runs in a container of a real runtime: it is measured,
told of by its digest, and gone afterwards, also where the run itself is killed.

Runs where INFEROMETER_CONTAINERS names a runtime that may be used: `docker`, `podman`. The image is
empty: the container sees this machine's own programs, read-only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

import inferometer
from inferometer.engine.container import LABEL
from inferometer.store import RunDir

RUNTIME = "INFEROMETER_CONTAINERS"
IMAGE = "localhost/inferometer-test:1"
SYSTEM = ("/usr", "/bin", "/lib", "/lib64")
MASTER = f"""\
boxed:
  image: {IMAGE}
  model: Qwen/Qwen3-8B
  model-prefix: qwen3
  precision: fp8
  framework: simulated
  runner: sim-h200
  multinode: false
  scenarios:
    fixed-seq-len:
    - isl: 64
      osl: 8
      search-space:
      - {{ tp: 1, conc-list: [2] }}
"""
RECIPE = "- workload: { duration_s: SECONDS, requests: null, warmup_requests_per_lane: 1 }\n"
POINT = "boxed_64_8_tp1_c2"


@dataclass(frozen=True)
class Place:
    """A folder with all that a run needs, and the runtime."""

    folder: Path
    runtime: str

    def ask(self, *words: str) -> str:
        done = subprocess.run(
            [self.runtime, *words], capture_output=True, text=True, timeout=120, check=False
        )
        return done.stdout + done.stderr

    def ours(self) -> list[str]:
        """Containers with our label, running or not."""
        return self.ask("ps", "--all", "--quiet", "--filter", f"label={LABEL}").split()

    def start(self, seconds: int, out: str) -> subprocess.Popen[str]:
        recipes = self.folder / "recipes"
        recipes.mkdir(exist_ok=True)
        (recipes / "test.yaml").write_text(RECIPE.replace("SECONDS", str(seconds)))
        words = ["--runners", "runners.yaml", "--site", "site.yaml", "--out", out]
        return subprocess.Popen(
            [sys.executable, "-m", "inferometer", "run", "master.yaml", *words],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    runtime = os.environ.get(RUNTIME)
    if not runtime:
        pytest.skip(f"{RUNTIME} names no container runtime")
    folder = tmp_path_factory.mktemp("boxed")
    with tarfile.open(folder / "empty.tar", "w") as tar:
        for name in ("tmp", "proc", "dev", "etc"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o777
            tar.addfile(entry)
    found = Place(folder, runtime)
    assert "sha256:" in (said := found.ask("import", str(folder / "empty.tar"), IMAGE)), said
    sources = str(Path(inferometer.__file__).parents[1])
    seen = sorted({*SYSTEM, sys.prefix, sys.base_prefix, sources})
    site = {
        "env": {"PATH": f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": sources},
        "container": {
            "runtime": runtime,
            "gpus": None,
            "init": False,
            "ulimits": [],
            "shm-size": "64m",
            "mounts": [f"{path}:{path}:ro" for path in seen if Path(path).exists()],
        },
    }
    (folder / "site.yaml").write_text(yaml.safe_dump(site))
    (folder / "master.yaml").write_text(MASTER)
    (folder / "runners.yaml").write_text("labels:\n  sim-h200: [local]\nhardware: {}\n")
    before = set(found.ours())
    yield found
    left = set(found.ours()) - before
    found.ask("rmi", IMAGE)
    assert left == set(), "containers were left behind"


def test_a_point_is_measured_in_a_container(place: Place) -> None:
    run = place.start(3, "run")
    said, _ = run.communicate(timeout=300)
    assert run.returncode in (0, 5), said
    point = RunDir(place.folder / "run").point(POINT)
    result, client = point.result(), point.client()
    assert result.counts["ok"] > 0
    assert client.image_digest is not None
    assert client.image_digest.startswith("sha256:")
    assert client.totals is not None
    assert client.totals.requests == len(point.records())
    codes = {reason.code for reason in result.verdict.reasons}
    assert not codes & {"counters_disagree", "engine_died", "failed_share"}
    assert client.left == ()
    assert place.ours() == []


def test_a_run_that_is_killed_leaves_no_container(place: Place) -> None:
    run = place.start(600, "killed")
    records = place.folder / "killed" / "points" / POINT / "records.jsonl"
    end_s = time.monotonic() + 120
    while not records.exists():
        assert run.poll() is None, run.communicate()[0]
        assert time.monotonic() < end_s, "it does not start"
        time.sleep(0.1)
    assert len(place.ours()) == 1
    run.send_signal(signal.SIGKILL)
    run.communicate(timeout=60)
    end_s = time.monotonic() + 60
    while place.ours():
        assert time.monotonic() < end_s, "its container is still there"
        time.sleep(0.1)
    assert run.returncode == -signal.SIGKILL


def test_a_command_that_the_image_has_not_is_told_as_that(place: Place) -> None:
    (place.folder / "recipes").mkdir(exist_ok=True)
    engines = place.folder / "recipes" / "engines"
    engines.mkdir()
    (engines / "simulated.yaml").write_text("- command: [no-such-engine, serve]\n")
    said, _ = place.start(1, "none").communicate(timeout=300)
    failure = RunDir(place.folder / "none").point(POINT).failure()
    assert failure is not None, said
    assert "exit code 127" in failure
    assert place.ours() == []
