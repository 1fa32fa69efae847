"""Site files, and how a launch is put together from a plan and a site."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferometer.engine.container import Container
from inferometer.errors import EngineError, InputError
from inferometer.run.engines import _write_files
from inferometer.run.site import Site
from inferometer.run.sitefile import read_site

GOOD = """\
models: { acme/big: /nvme/big }
models-dir: /models
env: { HF_HOME: /hf }
ready-timeout-s: 600
container:
  runtime: podman
  mounts: ["/models:/models:ro"]
  devices: [/dev/kfd]
  gpus: null
"""


def test_a_site_file(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text(GOOD)
    site = read_site(str(file))
    assert site.model_path("acme/big") == "/nvme/big"
    assert site.model_path("acme/small") == "/models/acme/small"
    assert site.ready_timeout_s == 600.0
    assert site.container == Container(
        runtime="podman",
        gpus=None,
        mounts=("/models:/models:ro",),
        devices=("/dev/kfd",),
        env={"HF_HOME": "/hf"},
    )


def test_without_a_site_a_model_is_its_own_name() -> None:
    assert Site().model_path("acme/big") == "acme/big"


def test_every_fault_of_a_site_file_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("model-dir: /m\ncontainer:\n  runtime: dokcer\n  mounts: [nowhere]\n")
    with pytest.raises(InputError) as caught:
        read_site(str(file))
    lines = str(caught.value)
    assert f"{file}:1" in lines
    assert "models-dir" in lines
    assert f"{file}:3" in lines
    assert "docker" in lines
    assert "HOST:CONTAINER" in lines


def test_files_of_a_plan_are_written_below_the_point(tmp_path: Path) -> None:
    root = _write_files({"conf/a.yml": "port: {port}"}, tmp_path, {"port": "8"})
    assert root == tmp_path / "files"
    assert (root / "conf" / "a.yml").read_text() == "port: 8"
    assert _write_files({}, tmp_path, {}) is None


@pytest.mark.parametrize("name", ["../out.yml", "/etc/out.yml", "a/../../out.yml"])
def test_a_plan_cannot_write_elsewhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(EngineError, match="outside of its own directory"):
        _write_files({name: "x"}, tmp_path, {})
    assert list(tmp_path.iterdir()) == []
