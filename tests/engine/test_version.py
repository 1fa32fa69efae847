"""Where engines say which version they are."""

from __future__ import annotations

import pytest

from inferometer.engine.version import engine_version

Pages = dict[str, tuple[int, bytes]]


def asked(pages: Pages) -> str | None:
    def read(url: str, _: float) -> tuple[int, bytes]:
        path = url.removeprefix("http://e")
        if path not in pages:
            raise ConnectionResetError
        return pages[path]

    return engine_version("http://e", read)


@pytest.mark.parametrize(
    ("pages", "version"),
    [
        ({"/version": (200, b'{"version": "0.26.0"}')}, "0.26.0"),
        ({"/version": (404, b"{}"), "/server_info": (200, b'{"version": "0.5.23"}')}, "0.5.23"),
        ({"/get_server_info": (200, b'{"version": "0.5.2", "x": [1]}')}, "0.5.2"),
        ({"/props": (200, b'{"build_info": "b11434-abc"}')}, "b11434-abc"),
        ({"/version": (200, b"<html>"), "/props": (200, b'{"build_info": " "}')}, None),
        ({"/version": (200, b'["0.1"]')}, None),
        ({"/version": (200, b'{"version": 7}')}, None),
        ({}, None),
    ],
)
def test_the_first_place_that_says_it(pages: Pages, version: str | None) -> None:
    assert asked(pages) == version


def test_a_version_is_no_novel() -> None:
    told = asked({"/version": (200, b'{"version": "' + b"9" * 5000 + b'"}')})
    assert told is not None
    assert len(told) == 100
