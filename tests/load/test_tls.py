"""One TLS connection between buffers: texts come out whole at any cut, and what followed them in
the same bytes is told.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import server_context

from inferometer.load.tls import TlsChannel

Pair = tuple[TlsChannel, Callable[[bytes], bytes], Callable[[], bytes]]

TEXTS = [b"a", b"bc" * 9_000, b"", b"d"]
"""The second takes two records, as a record holds 16 kB at most; the third none."""


@pytest.fixture(scope="module", params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def shake(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], Pair]:
    """A client that has shaken hands, what its server would send for a text, and at its end."""
    folder = tmp_path_factory.mktemp("tls")
    theirs = server_context(folder)
    theirs.maximum_version = request.param
    ours = ssl.create_default_context(cafile=str(folder / "cert.pem"))

    def make() -> Pair:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = theirs.wrap_bio(incoming, outgoing, server_side=True)
        channel = TlsChannel(ours, "127.0.0.1")
        data, done, served = b"", False, False
        while not done or not served:
            mine, done = channel.handshake(data)
            incoming.write(mine)
            if not served:
                try:
                    server.do_handshake()
                    served = True
                except ssl.SSLWantReadError:
                    pass
            data = outgoing.read()
        if data:
            assert channel.decrypt(data) == (b"", True)  # tickets, which hold no text

        def send(text: bytes) -> bytes:
            if text:
                server.write(text)
            return outgoing.read()

        def bid_farewell() -> bytes:
            with pytest.raises(ssl.SSLWantReadError):
                server.unwrap()
            return outgoing.read()

        return channel, send, bid_farewell

    return make


def test_what_follows_a_text_in_the_same_bytes_is_told(shake: Callable[[], Pair]) -> None:
    channel, send, bid_farewell = shake()
    first, second = send(b"first"), send(b"second")
    assert channel.decrypt(first) == (b"first", False)
    for cut in (1, 4, 5, 6, -1):
        third = send(b"third")
        assert channel.decrypt(second + third[:cut]) == (b"second", True)
        assert channel.decrypt(third[cut:]) == (b"third", False)
        second = send(b"second")
    assert channel.decrypt(second + send(b"more")) == (b"secondmore", False)
    last = send(b"last")
    assert channel.decrypt(last + bid_farewell()) == (b"last", True)
    assert channel.decrypt(b"") == (b"", False)


@given(cuts=st.lists(st.integers(0, 18_200), max_size=8))
def test_texts_are_whole_at_every_cut(shake: Callable[[], Pair], cuts: list[int]) -> None:
    channel, send, _ = shake()
    records = [send(text) for text in TEXTS]
    stream = b"".join(records)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    got, told = b"", []
    for start, end in pairwise(edges):
        text, followed = channel.decrypt(stream[start:end])
        got += text
        told.append(followed)
    assert got == b"".join(TEXTS)
    ends, at = {0}, 0
    while at < len(stream):
        at += 5 + int.from_bytes(stream[at + 3 : at + 5], "big")
        ends.add(at)
    wanted = [end > start and end not in ends for start, end in pairwise(edges)]
    assert told == wanted
