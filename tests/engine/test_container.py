"""The command lines of docker and podman: by their words, before the real docker command where it
is, and before a runtime of ours that is as strict.
"""

from __future__ import annotations

import http.server
import json
import os
import shutil
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inferometer.engine import container as module
from inferometer.engine.container import (
    Container,
    Image,
    Launch,
    how_it_ended,
    inspect_image,
    passed_env,
    pull_argv,
    remove_argv,
    run_argv,
)
from inferometer.errors import EngineError

FAKE = Path(__file__).with_name("fake_runtime.py")
LAUNCH = Launch(
    "n1",
    "sha256:1d",
    ["vllm", "serve", "m"],
    {"A": "1 2", "HF_TOKEN": "hush"},
    "/run/files",
    (8000,),
)


def argv_of(**changes: object) -> list[str]:
    return run_argv(Container("docker", **changes), LAUNCH)  # type: ignore[arg-type]


def test_an_image_is_run_with_the_plans_own_command() -> None:
    argv = argv_of(mounts=("/models:/models:ro",), env={"HF_HOME": "/hf", "A": "site"})
    text = " ".join(argv)
    assert argv[:4] == ["docker", "run", "--name", "n1"]
    assert argv[-3:] == ["sha256:1d", "serve", "m"]
    for words in (
        "--entrypoint vllm",
        "--gpus all",
        "--volume /models:/models:ro",
        "--volume /run/files:/run/files --workdir /run/files",
        "--network host",
        "--pull never",
        "--ulimit memlock=-1",
    ):
        assert words in text
    # It would be gone before it is known how it ended.
    assert "--rm" not in argv
    assert "--publish" not in argv


def test_no_value_of_a_variable_is_on_the_command_line_and_each_is_handed_over() -> None:
    docker = Container("docker", env={"HF_HOME": "/hf", "A": "site"})
    argv = run_argv(docker, LAUNCH)
    assert [argv[place + 1] for place, word in enumerate(argv) if word == "--env"] == [
        "HF_HOME",
        "A",
        "HF_TOKEN",
    ]
    assert "hush" not in " ".join(argv)
    assert passed_env(docker, LAUNCH.env) == {"HF_HOME": "/hf", "A": "1 2", "HF_TOKEN": "hush"}


@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "DOCKER_HOST", "https_proxy", "HOME"])
def test_what_the_runtime_itself_would_follow_is_for_the_container_alone(name: str) -> None:
    launch = Launch("n", "i", ["x"], {name: "/opt"})
    assert f"{name}=/opt" in run_argv(Container("docker"), launch)
    assert passed_env(Container("docker"), launch.env) == {}


def test_amd_cards_come_as_devices_and_podman_names_gpus_its_own_way() -> None:
    amd = " ".join(argv_of(gpus=None, devices=("/dev/kfd", "/dev/dri")))
    assert "--gpus" not in amd
    assert "--device /dev/kfd --device /dev/dri" in amd

    def podman(gpus: str) -> str:
        return " ".join(run_argv(Container("podman", gpus=gpus), LAUNCH))

    assert "--device nvidia.com/gpu=0 --device nvidia.com/gpu=3" in podman("device=0,3")
    assert "--device nvidia.com/gpu=0 --device nvidia.com/gpu=1" in podman("2")
    assert "--device nvidia.com/gpu=all" in podman("all")


@pytest.mark.parametrize(
    ("gpus", "word"),
    [
        ("device=0,3", '"device=0,3"'),
        ('"device=0,3"', '"device=0,3"'),
        ("device=1", "device=1"),
        ("2", "2"),
    ],
)
def test_docker_is_given_a_list_of_gpus_as_one_field(gpus: str, word: str) -> None:
    argv = argv_of(gpus=gpus)
    assert argv[argv.index("--gpus") + 1] == word


def test_a_network_of_its_own_has_its_port_on_loopback() -> None:
    argv = argv_of(network="bridge")
    assert argv[argv.index("--publish") + 1] == "127.0.0.1:8000:8000"


def test_shared_memory_of_the_host_has_no_size_and_limits_are_those_of_the_site() -> None:
    text = " ".join(argv_of(ipc="host", ulimits=("stack=67108864",), init=False))
    assert "--ipc host" in text
    assert "--shm-size" not in text
    assert "memlock" not in text
    assert "--init" not in text


def test_podman_without_root_is_not_asked_to_raise_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "geteuid", lambda: 1000)  # type: ignore[attr-defined]
    assert "--ulimit" not in run_argv(Container("podman"), LAUNCH)
    assert "--ulimit" in run_argv(Container("docker"), LAUNCH)


def test_podman_is_told_which_registry_a_bare_name_means() -> None:
    podman = Container("podman")
    assert pull_argv(podman, "vllm/x:1")[-1] == "docker.io/vllm/x:1"
    assert pull_argv(podman, "busybox")[-1] == "docker.io/library/busybox"
    assert pull_argv(podman, "nvcr.io/nvidia/x:1")[-1] == "nvcr.io/nvidia/x:1"
    assert pull_argv(podman, "localhost/x")[-1] == "localhost/x"
    assert pull_argv(Container("docker"), "vllm/x:1")[-1] == "vllm/x:1"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which `docker` and `podman` are the runtime of ours, with its state."""
    for name in ("docker", "podman"):
        script = tmp_path / name
        script.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} {tmp_path} "$@"\n')
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def test_an_image_has_its_id_and_the_digest_of_the_registry_that_was_asked(state: Path) -> None:
    (state / "images").write_text(
        "vllm/x:1 sha256:1d mirror.io/y/x@sha256:cd vllm/x@sha256:ab12\nown:1 sha256:2d\npod 3d\n"
    )
    docker = Container("docker")
    assert inspect_image(docker, "vllm/x:1") == Image("sha256:1d", "sha256:ab12")
    assert inspect_image(docker, "own:1") == Image("sha256:2d", "sha256:2d")
    assert inspect_image(Container("podman"), "pod") == Image("sha256:3d", "sha256:3d")
    assert inspect_image(docker, "vllm/other:1") is None


def test_a_runtime_that_is_missing_or_refuses_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="docker is not installed"):
        inspect_image(Container("docker"), "vllm/x:1")
    script = tmp_path / "docker"
    script.write_text("#!/bin/sh\necho permission denied: docker.sock >&2\nexit 1\n")
    script.chmod(0o755)
    with pytest.raises(
        EngineError, match=r"docker cannot be used: permission denied: docker\.sock"
    ):
        inspect_image(Container("docker"), "vllm/x:1")


def fake(state: Path, argv: list[str], env: dict[str, str] | None = None) -> int:
    done = subprocess.run(
        argv, env={**os.environ, **(env or {})}, capture_output=True, timeout=60, check=False
    )
    return done.returncode


def test_the_strict_runtime_takes_our_words_and_no_others(state: Path) -> None:
    (state / "images").write_text("i sha256:1d\n")
    docker = Container("docker", gpus="device=0,3", ipc="host", network="bridge")
    launch = Launch("n", "sha256:1d", ["/bin/sh", "-c", "exit $CODE"], {"CODE": "7"}, None, (80,))
    argv = run_argv(docker, launch)
    assert fake(state, argv, passed_env(docker, launch.env)) == 7
    assert fake(state, argv) == 125, "the name is taken"
    assert fake(state, remove_argv(docker, "n")) == 0
    assert fake(state, [*argv[:2], "--no-such-flag", *argv[2:]]) == 125
    assert fake(state, run_argv(docker, Launch("n2", "sha256:no", ["x"]))) == 125
    unquoted = [word.strip('"') for word in argv]
    assert fake(state, unquoted) == 125


def test_how_a_container_ended_is_the_runtimes_to_tell(state: Path) -> None:
    (state / "images").write_text("i sha256:1d\n")
    docker = Container("docker")

    def ended(name: str, argv: list[str]) -> str | None:
        code = fake(state, run_argv(docker, Launch(name, "sha256:1d", argv)))
        return how_it_ended(docker, name, code)

    assert ended("own", ["/bin/sh", "-c", "exit 3"]) is None
    assert ended("none", ["no-such-engine"]) == "docker: exec: not found"
    assert how_it_ended(docker, "never", 125) == "the runtime could not run the container"
    (state / "fate").write_text("oom")
    assert ended("fat", ["/bin/sh", "-c", "kill -9 $$"]) == (
        "out of host memory: the container's limit was reached"
    )


class Daemon(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """What the docker command talks to: takes note of what it should create, and refuses."""

    daemon_threads = True
    asked: list[dict[str, Any]]


class Api(http.server.BaseHTTPRequestHandler):
    """As much of docker's API as a start needs."""

    server: Daemon

    def address_string(self) -> str:
        return "docker"

    def log_message(self, format: str, *args: object) -> None:
        return None

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, text = 404, b'{"message": "No such image: x"}'
        if self.path.endswith("/_ping"):
            status, text = 200, b"OK"
        elif "/containers/create" in self.path:
            self.server.asked.append(json.loads(body))
        self.send_response(status)
        self.send_header("Api-Version", "1.41")
        self.send_header("Ostype", "linux")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_GET = do_POST = do_HEAD = answer


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    if shutil.which("docker") is None:
        pytest.skip("no docker command on this machine")
    running = Daemon(str(tmp_path / "d.sock"), Api)
    running.asked = []
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    for name in ("DOCKER_CONTEXT", "DOCKER_API_VERSION", "DOCKER_TLS", "DOCKER_TLS_VERIFY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))  # a user's own may add proxies
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/d.sock")
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.mark.sockets
def test_the_real_docker_command_asks_its_daemon_for_what_is_meant(daemon: Daemon) -> None:
    docker = Container(
        "docker", gpus="device=0,3", devices=("/dev/null",), mounts=("/m:/m:ro",), network="bridge"
    )
    assert inspect_image(docker, "x") is None
    done = subprocess.run(
        run_argv(docker, LAUNCH),
        env={**os.environ, **passed_env(docker, LAUNCH.env)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 125, done.stderr
    assert daemon.asked, done.stderr
    (asked,) = daemon.asked
    host = asked["HostConfig"]
    assert (asked["Image"], asked["Entrypoint"], asked["Cmd"]) == (
        "sha256:1d",
        ["vllm"],
        ["serve", "m"],
    )
    assert sorted(asked["Env"]) == ["A=1 2", "HF_TOKEN=hush"]
    assert (host["DeviceRequests"][0]["Count"], host["DeviceRequests"][0]["DeviceIDs"]) == (
        0,
        ["0", "3"],
    )
    assert host["ShmSize"] == 16 << 30
    assert host["Ulimits"] == [{"Name": "memlock", "Hard": -1, "Soft": -1}]
    assert host["LogConfig"]["Type"] == "none"
    assert host["PortBindings"] == {"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8000"}]}
    # docker keeps its mounts in a map: they come in any order.
    assert sorted(host["Binds"]) == ["/m:/m:ro", "/run/files:/run/files"]
    assert asked["Labels"] == {module.LABEL: "n1"}
    assert host["Init"] is True
