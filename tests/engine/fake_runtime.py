"""A container runtime that is as strict as the real ones and runs its containers as processes.

`python fake_runtime.py STATE WORDS…`: what `docker WORDS…` does, for the few commands there are. It
takes no option that docker's own help does not list, and no image, name or container that is not
there. STATE holds `images` (`NAME ID DIGESTS…` a line), `registry` likewise (what may be pulled), a
file for each container, and `calls`, every command line with the variables it was given.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

WITH_VALUE = {
    "--name", "--label", "--pull", "--log-driver", "--network", "--publish", "--shm-size", "--ipc",
    "--ulimit", "--gpus", "--device", "--volume", "--workdir", "--env", "--entrypoint",
    "--group-add", "--cap-add", "--security-opt", "--user", "--cpuset-cpus",
}  # fmt: skip
WITHOUT = {"--init", "--rm", "--privileged"}
LIMITS = ("host", "memlock", "nofile", "stack", "core")


def refuse(text: str, code: int = 125) -> NoReturn:
    """What is wrong, and how docker ends then."""
    sys.stderr.write(f"docker: {text}\n")
    sys.exit(code)


def split(words: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Options with their values, and what stands behind them."""
    options: list[tuple[str, str]] = []
    while words and words[0].startswith("-"):
        name = words.pop(0)
        if name in WITHOUT:
            options.append((name, ""))
        elif name in WITH_VALUE and words:
            options.append((name, words.pop(0)))
        else:
            refuse(f"unknown flag: {name}")
    return options, words


def known(state: Path, table: str, image: str) -> tuple[str, list[str]] | None:
    """Id and digests of an image, by any name of it or its id."""
    file = state / table
    for line in file.read_text().splitlines() if file.exists() else ():
        name, own, *digests = line.split()
        if image in (name, own, own.removeprefix("sha256:")):
            return own, digests
    return None


def run(state: Path, words: list[str]) -> int:
    """Run a container in the foreground and take note of how it ended."""
    options, rest = split(words)
    given = dict(options)
    if not rest:
        refuse("requires at least 1 argument")
    if known(state, "images", rest[0]) is None and given.get("--pull") == "never":
        refuse(f"Error response from daemon: No such image: {rest[0]}")
    gpus = given.get("--gpus", "all")
    if "," in gpus and not (gpus.startswith('"') and gpus.endswith('"')):
        refuse("Error response from daemon: cannot set both Count and DeviceIDs on device request")
    if given.get("--ipc") == "host" and "--shm-size" in given:
        refuse("--shm-size has no meaning in the host's IPC namespace")
    for _, limit in (option for option in options if option[0] == "--ulimit"):
        if limit.partition("=")[0] not in LIMITS:
            refuse(f"invalid ulimit argument: {limit}")
    file = state / f"container-{given['--name']}"
    if file.exists():
        refuse(f"Conflict. The container name {given['--name']!r} is already in use")
    # A bare name is looked up in the environment of the command.
    env = {"PATH": os.defpath}
    for name, _, value in (v.partition("=") for o, v in options if o == "--env"):
        env[name] = value or os.environ.get(name, "")
    try:
        child = subprocess.Popen(
            [given["--entrypoint"], *rest[1:]], env=env, cwd=given.get("--workdir")
        )
    except OSError as error:
        file.write_text(json.dumps({"killed": False, "error": "exec: not found"}))
        refuse(f"Error response from daemon: {error}", 127)
    file.write_text(json.dumps({"killed": False, "error": "", "pid": child.pid}))
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    code = child.wait()
    killed = "oom" in (state / "fate").read_text() if (state / "fate").exists() else False
    if file.exists():
        file.write_text(json.dumps({"killed": killed, "error": ""}))
    return code if code >= 0 else 128 - code


def inspect(state: Path, words: list[str]) -> int:
    """How a container is."""
    if words[:3] != ["--type", "container", "--format"]:
        refuse(f"unknown flag: {words[0]}", 1)
    file = state / f"container-{words[4]}"
    if not file.exists():
        refuse(f"Error response from daemon: No such container: {words[4]}", 1)
    held = json.loads(file.read_text())
    print(str(held["killed"]).lower(), held["error"])
    return 0


def remove(state: Path, words: list[str]) -> int:
    """End a container by its name; one that is not there is no error under --force."""
    if words[:2] != ["--force", "--volumes"] or len(words) != 3:
        refuse(f"unknown flag: {words[0]}", 1)
    (state / f"container-{words[2]}").unlink(missing_ok=True)
    return 0


def image(state: Path, words: list[str]) -> int:
    """`image inspect --format …`, and `pull`."""
    if words[:3] != ["inspect", "--format", "{{.Id}} {{.RepoDigests}}"] or len(words) != 4:
        refuse(f"unknown command: image {words[0]}", 1)
    if (found := known(state, "images", words[3])) is None:
        refuse(f"Error response from daemon: No such image: {words[3]}", 1)
    print(found[0], f"[{' '.join(found[1])}]")
    return 0


def pull(state: Path, words: list[str]) -> int:
    """Make an image of the registry one of this machine's."""
    (name,) = words
    if (found := known(state, "registry", name)) is None:
        refuse(f"Error response from daemon: manifest for {name} not found: manifest unknown", 1)
    with (state / "images").open("a") as file:
        file.write(f"{name} {found[0]} {' '.join(found[1])}\n")
    print(f"Status: Downloaded newer image for {name}")
    return 0


def main() -> None:
    """One command."""
    state, words = Path(sys.argv[1]), sys.argv[2:]
    with (state / "calls").open("a") as file:
        file.write(json.dumps({"argv": words, "env": dict(os.environ)}) + "\n")
    commands = {"run": run, "inspect": inspect, "rm": remove, "image": image, "pull": pull}
    if words[0] not in commands:
        refuse(f"{words[0]!r} is not a docker command", 1)
    sys.exit(commands[words[0]](state, words[1:]))


if __name__ == "__main__":
    main()
