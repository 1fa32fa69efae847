"""Files behind a path: packed or not, whole or cut short, of any suffix that is known."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from inferometer.errors import InputError
from inferometer.workload import ReadOptions, read_corpus
from inferometer.workload.files import head, lines, packed, trace_files

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ROW = {"t": 0, "type": "n", "in": 70, "out": 3, "hash_ids": [0], "api_time": 1.0}


def trace(name: str) -> bytes:
    whole = {"id": name, "block_size": 64, "hash_id_scope": "local", "requests": [ROW]}
    return json.dumps(whole).encode() + b"\n"


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", zstd.compress)])
def test_packed_files_are_read_and_a_cut_one_is_told(
    tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    data = pack(b"".join(trace(str(n)) for n in range(200)))
    path.write_bytes(data)
    assert [s.id for s in read_corpus(tmp_path).sessions] == [str(n) for n in range(200)]
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match=rf"a\.jsonl{suffix}: the packed data is damaged or cut"):
        read_corpus(path)
    path.write_bytes(data[:-9] + b"\x00" * 9)
    with pytest.raises(InputError, match="the packed data is damaged or cut"):
        read_corpus(path)


def test_packing_is_told_by_content(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(gzip.compress(trace("x")))
    (tmp_path / "b.json.gz").write_bytes(trace("y"))
    assert [session.id for session in read_corpus(tmp_path).sessions] == ["x", "y"]


def test_two_packed_parts_in_one_file_are_read_on(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(zstd.compress(trace("x")) + zstd.compress(trace("y")))
    assert [session.id for session in read_corpus(path).sessions] == ["x", "y"]


def test_what_is_no_trace_in_a_directory_is_left_alone(tmp_path: Path) -> None:
    for name in ("b.csv.gz", "a.jsonl.zst", "notes.md", "c.gz", "d.json"):
        (tmp_path / name).touch()
    (tmp_path / "e.json").mkdir()
    assert [file.name for file in trace_files(tmp_path)] == ["a.jsonl.zst", "b.csv.gz", "d.json"]


@pytest.mark.parametrize("suffix", [".jsonl", ".gz", ".zst"])
def test_what_is_written_is_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    with packed(path, suffix) as target:
        target.write(b"one\n\n  two  \n")
    assert list(lines(path)) == [(1, b"one"), (3, b"two")]
    assert head(path, 2) == b"on"


def test_a_format_is_told_by_content_or_asked(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,10,2\n")
    assert len(read_corpus(path).sessions) == 1
    with pytest.raises(InputError, match="not valid JSON"):
        read_corpus(path, ReadOptions(format="weka"))
    path.write_text("hello\n")
    with pytest.raises(InputError, match=r"a\.json: of no format that is known here"):
        read_corpus(path)
    with pytest.raises(InputError, match=r"no format 'azur'; did you mean 'azure'\?"):
        read_corpus(path, ReadOptions(format="azur"))


def test_sound_sessions_can_be_had_without_the_others(tmp_path: Path) -> None:
    good, other = trace("x"), trace("z").replace(b'"block_size": 64', b'"block_size": 32')
    bad = trace("y").replace(b'"in": 70', b'"in": -1')
    (tmp_path / "a.jsonl").write_bytes(good + bad + b"{\n" + good + other.replace(b"[0]", b"[0,1]"))
    with pytest.raises(InputError) as caught:
        read_corpus(tmp_path)
    told = [(problem.line, problem.key) for problem in caught.value.problems]
    assert told == [(2, "requests[0].in"), (3, None), (5, "block_size")]
    found = read_corpus(tmp_path, ReadOptions(skip_bad=True))
    assert [session.id for session in found.sessions] == ["x"]
    assert (found.report.sessions, found.report.skipped, found.report.duplicates) == (1, 3, 1)


@pytest.mark.parametrize("skip_bad", [False, True])
def test_the_odd_block_size_is_that_of_the_fewer_sessions(tmp_path: Path, skip_bad: bool) -> None:
    odd = trace("a").replace(b'"block_size": 64', b'"block_size": 32').replace(b"[0]", b"[0,1]")
    (tmp_path / "a.json").write_bytes(odd)
    (tmp_path / "b.jsonl").write_bytes(trace("b") + trace("c"))
    text = "a.json: block_size: blocks of 32 tokens, where 2 of 3 sessions have 64"
    if not skip_bad:
        with pytest.raises(InputError) as caught:
            read_corpus(tmp_path)
        assert [str(p).rpartition("/")[2] for p in caught.value.problems] == [text]
        return
    found = read_corpus(tmp_path, ReadOptions(skip_bad=True))
    assert [session.id for session in found.sessions] == ["b", "c"]
    assert (found.report.sessions, found.report.turns, found.report.skipped) == (2, 2, 1)


def test_a_byte_order_mark_says_nothing(tmp_path: Path) -> None:
    for name, text in (("a.json", trace("x")), ("b.jsonl", trace("y"))):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text)
    assert [session.id for session in read_corpus(tmp_path).sessions] == ["x", "y"]


def test_a_corpus_without_a_sound_session_is_refused_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"{\n")
    with pytest.raises(InputError, match="not valid JSON"):
        read_corpus(tmp_path, ReadOptions(skip_bad=True))


def test_problems_are_bounded_over_all_files(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.jsonl").write_bytes(b"{\n" * 15)
    with pytest.raises(InputError) as caught:
        read_corpus(tmp_path)
    assert len(caught.value.problems) == 202
    assert str(caught.value.problems[-2]).endswith("13.jsonl: and 10 more problems")
    assert str(caught.value.problems[-1]) == "and 240 problems in 16 more files"
