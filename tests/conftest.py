"""Shared by every test: the emptied environment, and where the real data lies."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is slow, and slowness is no fault: no example has a time limit. The same tree has
# the same examples, so a pass is a pass everywhere; `--hypothesis-profile search` draws new ones.
settings.register_profile(
    "search", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("steady", parent=settings.get_profile("search"), derandomize=True)
settings.load_profile("steady")

SHARED = Path(__file__).resolve().parents[2] / "shared"


USERS_OWN = (
    "OPENAI_API_KEY",
    *("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"),
    *(f"{scheme}_proxy" for scheme in ("http", "https", "all", "no")),
    *(f"{scheme}_PROXY" for scheme in ("HTTP", "HTTPS", "ALL", "NO")),
)


@pytest.fixture(scope="session", autouse=True)
def _clean_environ() -> Iterator[None]:
    """A user's own settings must not move a test, nor what is made once for a whole module."""
    with pytest.MonkeyPatch.context() as patch:
        for name in USERS_OWN:
            patch.delenv(name, raising=False)
        yield


@pytest.fixture
def no_address(monkeypatch: pytest.MonkeyPatch) -> str:
    """A host without an address. The machine's resolver is not asked: it may take long, or have an
    answer to every name.
    """
    name, look_up = "no-such-host.invalid", socket.getaddrinfo

    def looked_up(host: Any, *args: Any, **changes: Any) -> Any:
        if host == name:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return look_up(host, *args, **changes)

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    return name


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real traces and configs beside the checkout; the test is skipped without it."""
    data = SHARED / "data"
    if not data.is_dir():
        pytest.skip("no real data beside this checkout (shared/data)")
    return data
