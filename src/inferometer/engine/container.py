"""A launch as a container: the command lines of docker or podman that fetch an image, run it in the
foreground, tell how it ended and remove it.

What is run is the image that was inspected, by its id: a tag may move meanwhile. A container has a
name that nobody else can have, and only that name is ever stopped or removed. Values of variables
stay out of command lines, which every user of a machine can read.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from inferometer.errors import EngineError

Runtime = Literal["docker", "podman"]
LABEL = "inferometer.run"
ANSWER_S = 60.0
HOST = "host"
MEMLOCK = "memlock=-1"
"""Pinned host memory and RDMA want more than the 8 MiB that systems allow."""
OWN_OF_THE_RUNTIME = re.compile(
    r"(PATH|HOME|USER|TMPDIR|LANG|LC_.*|LD_.*|DOCKER_.*|BUILDKIT_.*|CONTAINER_.*|CONTAINERS_.*"
    r"|REGISTRY_AUTH_FILE|XDG_.*|SSL_CERT_.*|GODEBUG|(HTTPS?|ALL|NO)_PROXY)",
    re.IGNORECASE,
)
"""Variables that the runtime's own command would follow: they are given by value, and to the
container alone."""
UNKNOWN_IMAGE = ("no such image", "image not known", "no such object")
ENDED = {
    125: "the runtime could not run the container",
    126: "the image has the command, and it cannot be run",
    127: "the image has no such command",
}


@dataclass(frozen=True, slots=True)
class Container:
    """How containers are run at a site; nothing of it is part of a point.

    `mounts` are `HOST:CONTAINER[:ro]`; `gpus` is `all`, a count, or `device=0,3`, None for GPUs
    that come as `devices` (AMD: /dev/kfd and /dev/dri). With `ipc` there is no `shm_size`.
    `ulimits` None: locked memory without a limit, where the caller may ask for that. `arguments` go
    to the runtime as they are.
    """

    runtime: Runtime
    gpus: str | None = "all"
    mounts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    shm_size: str = "16g"
    ipc: str | None = None
    network: str = HOST
    ulimits: tuple[str, ...] | None = None
    init: bool = True
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def on_host_network(self) -> bool:
        """Whether its ports are the machine's own."""
        return self.network == HOST


@dataclass(frozen=True, slots=True)
class Image:
    """An image that the runtime has: its own id, and `sha256:…` of the registry's, else of the
    image's own id.
    """

    id: str
    digest: str


@dataclass(frozen=True, slots=True)
class Launch:
    """What is run in one container. `ports` are opened on loopback where the network is not the
    host's; `folder` on this machine is mounted at its own path and is the working directory.
    """

    name: str
    image: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    folder: str | None = None
    ports: Sequence[int] = ()


def run_argv(container: Container, launch: Launch) -> list[str]:
    """The command that runs a launch; to be run with `passed_env`."""
    name = launch.name
    words = [container.runtime, "run", "--name", name, "--label", f"{LABEL}={name}"]
    # Fetched before. The output comes to us: kept a second time it would fill the runtime's disk.
    words += ["--pull", "never", "--log-driver", "none"]
    words += ["--init"] if container.init else []
    words += ["--network", container.network]
    if not container.on_host_network:
        for port in launch.ports:
            words += ["--publish", f"127.0.0.1:{port}:{port}"]
    words += ["--shm-size", container.shm_size] if container.ipc is None else []
    words += ["--ipc", container.ipc] if container.ipc is not None else []
    for limit in _ulimits(container):
        words += ["--ulimit", limit]
    if container.gpus is not None:
        words += _gpus(container.runtime, container.gpus)
    for device in container.devices:
        words += ["--device", device]
    for mount in container.mounts:
        words += ["--volume", mount]
    if launch.folder is not None:
        words += ["--volume", f"{launch.folder}:{launch.folder}", "--workdir", launch.folder]
    for variable, value in {**container.env, **launch.env}.items():
        words += ["--env", f"{variable}={value}" if _by_value(variable) else variable]
    words += ["--entrypoint", launch.argv[0]]
    return [*words, *container.arguments, launch.image, *launch.argv[1:]]


def passed_env(container: Container, env: Mapping[str, str]) -> dict[str, str]:
    """The values that `run_argv` names and does not hold: for the runtime's own environment."""
    every = {**container.env, **env}
    return {name: value for name, value in every.items() if not _by_value(name)}


def remove_argv(container: Container, name: str) -> list[str]:
    """The command that ends a container of ours, running or not, with its anonymous volumes."""
    return [container.runtime, "rm", "--force", "--volumes", name]


def pull_argv(container: Container, image: str) -> list[str]:
    """The command that fetches an image. Podman asks which registry a bare name means; docker's is
    meant.
    """
    first = image.partition("/")[0]
    bare = "/" not in image or not ("." in first or ":" in first or first == "localhost")
    if container.runtime == "podman" and bare:
        image = f"docker.io/{image}" if "/" in image else f"docker.io/library/{image}"
    return [container.runtime, "pull", image]


def inspect_image(container: Container, image: str) -> Image | None:
    """The image as the runtime has it; None before it is fetched.

    Raises EngineError where the runtime is missing or may not be used.
    """
    if shutil.which(container.runtime) is None:
        raise EngineError(f"{container.runtime} is not installed on this machine")
    form = "{{.Id}} {{.RepoDigests}}"
    done = _ask([container.runtime, "image", "inspect", "--format", form, image])
    if done.returncode == 0:
        return _image(done.stdout, image)
    if any(words in done.stderr.lower() for words in UNKNOWN_IMAGE):
        return None
    reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    raise EngineError(f"{container.runtime} cannot be used: {reason}")


def how_it_ended(container: Container, name: str, code: int) -> str | None:
    """What the runtime knows of a container that ended with `code`; None where it is the program's
    own affair.
    """
    form = "{{.State.OOMKilled}} {{.State.Error}}"
    try:
        done = _ask([container.runtime, "inspect", "--type", "container", "--format", form, name])
    except (EngineError, OSError):
        return ENDED.get(code)
    killed, _, error = done.stdout.strip().partition(" ")
    if done.returncode == 0 and killed == "true":
        return "out of host memory: the container's limit was reached"
    if done.returncode == 0 and error:
        return f"{container.runtime}: {error}"
    return ENDED.get(code)


def _ask(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            list(words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EngineError(f"{words[0]} did not answer in {ANSWER_S:g} s") from None


def _image(inspected: str, asked: str) -> Image | None:
    """Of an image that is in several registries, the digest in the one that was asked for."""
    own, _, listed = inspected.strip().partition(" ")
    if not own:
        return None
    # Podman leaves the algorithm out.
    own = own if ":" in own else f"sha256:{own}"
    known = [word.partition("@") for word in listed.strip("[]").split() if "@sha256:" in word]
    repository = _repository(asked)
    known.sort(key=lambda found: not _repository(found[0]).endswith(repository))
    return Image(own, known[0][2] if known else own)


def _repository(image: str) -> str:
    """A name without its digest and tag."""
    name = image.partition("@")[0]
    head, colon, tag = name.rpartition(":")
    return head if colon and "/" not in tag else name


def _by_value(variable: str) -> bool:
    return OWN_OF_THE_RUNTIME.fullmatch(variable) is not None


def _ulimits(container: Container) -> tuple[str, ...]:
    """Podman without root cannot raise a limit, and refuses to start where it is asked to."""
    if container.ulimits is not None:
        return container.ulimits
    rootless = container.runtime == "podman" and os.geteuid() != 0
    return () if rootless else (MEMLOCK,)


def _gpus(runtime: Runtime, gpus: str) -> list[str]:
    """Podman has GPUs by CDI names, docker by a flag of its own: a list of devices is one of its
    fields, and without quotes it takes the second for a count.
    """
    gpus = gpus.strip("\"'")
    if runtime == "docker":
        quoted = gpus.startswith("device=") and "," in gpus
        return ["--gpus", f'"{gpus}"' if quoted else gpus]
    chosen = gpus.removeprefix("device=")
    names = [str(n) for n in range(int(gpus))] if gpus.isdecimal() else chosen.split(",")
    return [word for name in names for word in ("--device", f"nvidia.com/gpu={name}")]
