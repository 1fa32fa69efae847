"""What is said before gigabytes are fetched for nothing."""

from __future__ import annotations

from pathlib import Path

import preflight
import pytest

LISTED = "six==1.17.0 \\\n    --hash=sha256:00\ntorch==2.13.0+cpu \\\n    --hash=sha256:11\n"
PLENTY = 100 << 30


def test_where_nothing_is_missing_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight.platform, "machine", lambda: "x86_64")  # type: ignore[attr-defined]
    monkeypatch.setattr(preflight.sys, "version_info", (3, 11, 9))  # type: ignore[attr-defined]
    assert preflight.problems(LISTED, PLENTY, None) == []


def test_everything_that_is_missing_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight.platform, "machine", lambda: "aarch64")  # type: ignore[attr-defined]
    machine, disk, torch = preflight.problems(LISTED, 3 << 30, "ERROR: none")
    assert "Python 3.11 on Linux x86_64" in machine
    assert disk == "3 GiB are free on the disk, 8 are needed"
    assert "torch 2.13.0+cpu" in torch
    assert "PIP_EXTRA_INDEX_URL" in torch
    assert torch.endswith("Pip says: ERROR: none")


def test_the_real_list_pins_the_torch_that_is_asked_for() -> None:
    listed = Path(__file__).parents[2] / "requirements" / "engines.txt"
    assert preflight.torch_version(listed.read_text()) in listed.with_suffix(".in").read_text()
    with pytest.raises(ValueError, match="pins no torch"):
        preflight.torch_version("six==1\n")
