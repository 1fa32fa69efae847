"""Reads a site file: what a person says of the place where engines are started."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import Field

from inferometer.engine.container import Container
from inferometer.errors import InputError
from inferometer.plan.fields import Items, Strict, Text, expect, one_of, validate
from inferometer.plan.source import read_document, read_file
from inferometer.run.site import Site

RUNTIMES = ("docker", "podman")
_MOUNT = re.compile(r"[^:]+:/[^:]*(:(ro|rw|z|Z))?")
Mount = Annotated[
    Any,
    expect(
        "HOST:CONTAINER or HOST:CONTAINER:ro",
        lambda v: isinstance(v, str) and _MOUNT.fullmatch(v) is not None,
    ),
]


class _Container(Strict):
    runtime: Annotated[Any, one_of(*RUNTIMES)]
    gpus: Text | None = "all"
    mounts: Items[Mount] = ()
    devices: Items[Text] = ()
    shm_size: Text = "16g"
    ipc: Text | None = None
    network: Text = "host"
    ulimits: Items[Text] | None = None
    init: bool = True
    arguments: Items[Text] = ()


class _Places(Strict):
    repo: Text | None = None
    workspace: Text | None = None


class _Site(Strict):
    models: dict[str, Text] = Field(default_factory=dict)
    models_dir: Text | None = None
    env: dict[str, Text] = Field(default_factory=dict)
    places: _Places = Field(default_factory=_Places)
    container: _Container | None = None
    ready_timeout_s: int | None = None


def read_site(path: str) -> Site:
    """A site file. InputError holds every problem of it."""
    document = read_document(path, read_file, "mapping")
    found, problems = validate(_Site, document, ())
    if document.problems or problems or found is None:
        raise InputError(*document.problems, *problems)
    given = found.container
    container = None
    if given is not None:
        container = Container(
            runtime=given.runtime,
            gpus=given.gpus,
            mounts=tuple(given.mounts),
            devices=tuple(given.devices),
            shm_size=given.shm_size,
            ipc=given.ipc,
            network=given.network,
            ulimits=None if given.ulimits is None else tuple(given.ulimits),
            init=given.init,
            arguments=tuple(given.arguments),
            env=found.env,
        )
    return Site(
        models=found.models,
        models_dir=found.models_dir,
        env=found.env,
        places={name: str(path) for name, path in found.places if path is not None},
        container=container,
        ready_timeout_s=float(found.ready_timeout_s or Site().ready_timeout_s),
    )
