"""Memory for large requests: what is put around a body, who may map it, and when it is let go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inferometer.load.sheet import MARGIN, Sheet, Stored


def made(inside: bytes) -> Sheet:
    sheet = Sheet(len(inside))

    def fill(memory: memoryview) -> None:
        memory[:] = inside

    sheet.write(fill)
    return sheet


def bytes_of(posted: Stored | bytes) -> bytes:
    return posted if isinstance(posted, bytes) else bytes(posted.opened())


@pytest.fixture(params=["shared", "inline"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the system's shared memory, and as if there were none."""
    name: str = request.param
    if name == "inline":
        monkeypatch.delattr(os, "memfd_create")
    elif not hasattr(os, "memfd_create"):
        pytest.skip("no memfd on this system")
    return name


def test_what_is_put_around_a_body_stands_around_it(kind: str) -> None:
    sheet = made(b",1,2,3,")
    sheet.trim(1, 1)
    sheet.enclose(b'{"prompt":[', b"]}")
    sheet.enclose(b"POST / HTTP/1.1\r\n\r\n", b"")
    whole = b'POST / HTTP/1.1\r\n\r\n{"prompt":[1,2,3]}'
    posted = sheet.posted()
    assert isinstance(posted, Stored) == (kind == "shared")
    assert bytes_of(posted) == whole
    assert sheet.size == len(whole)
    sheet.close()
    sheet.close()


def test_what_was_mapped_stays_when_its_maker_lets_go() -> None:
    sheet = made(b"x" * 100_000)
    posted = sheet.posted()
    if isinstance(posted, bytes):
        pytest.skip("no shared memory on this system")
    view = posted.opened()
    sheet.close()
    assert bytes(view) == b"x" * 100_000
    assert not Path(posted.path).exists()
    with pytest.raises(OSError, match="No such file"):
        posted.opened()


def test_a_sheet_that_nobody_closes_leaves_no_open_file() -> None:
    posted = made(b"x").posted()  # the sheet itself is gone
    assert isinstance(posted, bytes) or not Path(posted.path).exists()


def test_more_than_fits_around_a_body_is_refused() -> None:
    sheet = made(b"x")
    with pytest.raises(ValueError, match="too many"):
        sheet.enclose(b"y" * (MARGIN + 1), b"")
    sheet.close()


def test_without_an_open_file_to_spare_the_bytes_go_along(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(name: str, flags: int) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", none_left, raising=False)
    assert made(b"abc").posted() == b"abc"
