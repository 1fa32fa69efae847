"""The command lines of docker and podman, and a runtime that is a script of ours."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from inferometer.engine.container import Container, image_digest, remove_argv, run_argv
from inferometer.engine.process import Command, EngineProcess
from inferometer.errors import EngineError

RUNTIME = """\
#!{python}
import os, sys
log = os.path.join(os.path.dirname(__file__), "calls")
with open(log, "a") as file:
    file.write(" ".join(sys.argv[1:3]) + "\\n")
if sys.argv[1] == "image":
    print({inspected!r}) if {known} else sys.exit("Error: No such image: x")
elif sys.argv[1] == "run":
    import time
    print("container up", flush=True)
    time.sleep(60)
"""


def argv_of(**changes: object) -> list[str]:
    container = Container("docker", **changes)  # type: ignore[arg-type]
    return run_argv(container, "n1", "vllm/x:1", ["vllm", "serve", "m"], {"A": "1 2"}, "/run/files")


def test_an_image_is_run_with_the_plans_own_command() -> None:
    argv = argv_of(mounts=("/models:/models:ro",), env={"HF_HOME": "/hf", "A": "site"})
    text = " ".join(argv)
    assert argv[:6] == ["docker", "run", "--rm", "--init", "--name", "n1"]
    assert argv[-3:] == ["vllm/x:1", "serve", "m"]
    assert "--entrypoint vllm" in text
    assert "--gpus all" in text
    assert "--volume /models:/models:ro" in text
    assert "--volume /run/files:/run/files --workdir /run/files" in text
    assert "HF_HOME=/hf" in argv
    assert [word for word in argv if word.startswith("A=")] == ["A=1 2"]


def test_amd_cards_come_as_devices_and_podman_names_gpus_its_own_way() -> None:
    amd = " ".join(argv_of(gpus=None, devices=("/dev/kfd", "/dev/dri")))
    assert "--gpus" not in amd
    assert "--device /dev/kfd --device /dev/dri" in amd
    podman = Container("podman", gpus="device=0,3")
    words = " ".join(run_argv(podman, "n", "i", ["x"], {}, None))
    assert "--device nvidia.com/gpu=0 --device nvidia.com/gpu=3" in words


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which `docker` is a script; `calls` there holds what it was asked."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def install(folder: Path, inspected: str = "", *, known: bool = True) -> None:
    script = folder / "docker"
    script.write_text(RUNTIME.format(python=sys.executable, inspected=inspected, known=known))
    script.chmod(0o755)


def test_the_digest_of_an_image_is_its_registrys(runtime: Path) -> None:
    install(runtime, "sha256:1d [vllm/x@sha256:ab12 other@sha256:cd]")
    assert image_digest(Container("docker"), "vllm/x:1") == "sha256:ab12"
    install(runtime, "sha256:1d []")
    assert image_digest(Container("docker"), "vllm/x:1") == "sha256:1d"
    install(runtime, known=False)
    assert image_digest(Container("docker"), "vllm/x:1") is None


def test_a_runtime_that_is_missing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("docker") is None
    with pytest.raises(EngineError, match="docker is not installed"):
        image_digest(Container("docker"), "vllm/x:1")


def test_stopping_removes_the_container_by_its_own_name_alone(runtime: Path) -> None:
    install(runtime)
    container = Container("docker")
    command = Command(
        "engine",
        run_argv(container, "inferometer-engine-0", "i", ["x"], {}, None),
        cleanup=remove_argv(container, "inferometer-engine-0"),
    )
    with EngineProcess(command, runtime / "server.log", "http://127.0.0.1:1"):
        end_s = time.monotonic() + 20
        while not (runtime / "calls").exists() and time.monotonic() < end_s:
            time.sleep(0.01)
    assert (runtime / "calls").read_text().splitlines() == ["run --rm", "rm --force"]
