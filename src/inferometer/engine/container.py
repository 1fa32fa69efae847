"""A launch as a container: the command line of docker or podman that runs it in the foreground.

The container has a name and a label of ours; only a container with both is ever removed.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from inferometer.errors import EngineError

Runtime = Literal["docker", "podman"]
LABEL = "inferometer.run"
ANSWER_S = 60.0


@dataclass(frozen=True, slots=True)
class Container:
    """How containers are run at a site; nothing of it is part of a point.

    `mounts` are `HOST:CONTAINER[:ro]`; `gpus` is what `--gpus` takes, None for GPUs that come as
    `devices` (AMD: /dev/kfd and /dev/dri). `arguments` go to the runtime as they are.
    """

    runtime: Runtime
    gpus: str | None = "all"
    mounts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    shm_size: str = "16g"
    network: str = "host"
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


def run_argv(
    container: Container,
    name: str,
    image: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    folder: str | None,
) -> list[str]:
    """The command that runs `argv` in `image`. `folder` on this machine is mounted at its own path
    and is the working directory: the files that a plan writes are there.
    """
    words = [
        container.runtime,
        "run",
        "--rm",
        "--init",
        "--name",
        name,
        "--label",
        f"{LABEL}={name}",
    ]
    words += ["--network", container.network, "--shm-size", container.shm_size]
    words += ["--ulimit", "memlock=-1", "--entrypoint", argv[0]]
    if container.gpus is not None:
        words += _gpus(container.runtime, container.gpus)
    for device in container.devices:
        words += ["--device", device]
    for mount in container.mounts:
        words += ["--volume", mount]
    if folder is not None:
        words += ["--volume", f"{folder}:{folder}", "--workdir", folder]
    for variable, value in {**container.env, **env}.items():
        words += ["--env", f"{variable}={value}"]
    return [*words, *container.arguments, image, *argv[1:]]


def remove_argv(container: Container, name: str) -> list[str]:
    """The command that ends a container of ours, running or not."""
    return [container.runtime, "rm", "--force", "--volumes", name]


def image_digest(container: Container, image: str) -> str | None:
    """`sha256:…` of the image as the runtime has it; None before it is pulled.

    Raises EngineError where the runtime is missing or may not be used.
    """
    if shutil.which(container.runtime) is None:
        raise EngineError(f"{container.runtime} is not installed on this machine")
    words = [container.runtime, "image", "inspect", "--format", "{{.Id}} {{.RepoDigests}}", image]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=ANSWER_S, check=False)
    except subprocess.TimeoutExpired:
        raise EngineError(f"{container.runtime} did not answer in {ANSWER_S:g} s") from None
    if done.returncode == 0:
        return _digest(done.stdout)
    if "no such image" in done.stderr.lower() or "image not known" in done.stderr.lower():
        return None
    reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    raise EngineError(f"{container.runtime} cannot be used: {reason}")


def _digest(inspected: str) -> str | None:
    """The digest that the image has in its registry, else its own id."""
    own, _, listed = inspected.strip().partition(" ")
    for word in listed.strip("[]").split():
        if "@sha256:" in word:
            return word.partition("@")[2]
    return own or None


def _gpus(runtime: Runtime, gpus: str) -> list[str]:
    """Podman has GPUs by CDI names, docker by a flag of its own."""
    if runtime == "docker":
        return ["--gpus", gpus]
    names = ["all"] if gpus == "all" else gpus.removeprefix("device=").split(",")
    return [word for name in names for word in ("--device", f"nvidia.com/gpu={name}")]
