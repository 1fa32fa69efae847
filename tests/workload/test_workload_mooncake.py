"""Mooncake traces: rows, sessions of rows, and the two ways in which their lengths are meant."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from inferometer.core import Session
from inferometer.errors import InputError
from inferometer.workload import Corpus, Reading, ReadOptions, prefix_hit, read_corpus, stream

DELTA = ReadOptions(rows="delta")


def row(at: float, tokens: int, output: int = 10, **more: Any) -> dict[str, Any]:
    return {"timestamp": at, "input_length": tokens, "output_length": output, **more}


def write(folder: Path, *rows: object) -> Path:
    path = folder / "a.jsonl"
    texts = [each if isinstance(each, str) else json.dumps(each) for each in rows]
    path.write_text("\n".join(texts) + "\n")
    return path


def contexts(session: Session) -> list[tuple[int, list[int]]]:
    return [(turn.input_tokens, turn.block_ids.tolist()) for turn in session.turns]


def test_a_row_is_a_session_whose_blocks_are_common_to_all(tmp_path: Path) -> None:
    first, second = row(5, 1100, hash_ids=[7, 9, 4]), row(2500.5, 1024, 0, hash_ids=[7, 2])
    found = read_corpus(write(tmp_path, first, second, row(3000, 600)))
    assert [s.start_ns for s in found.sessions] == [5_000_000, 2_500_500_000, 3_000_000_000]
    assert [contexts(s) for s in found.sessions] == [
        [(1100, [7, 9])],
        [(1024, [7, 2])],
        [(600, [0])],
    ]
    assert [s.common_ids for s in found.sessions] == [10, 8, 0]
    report = found.report
    assert (report.hash_floor, report.hash_ceil, report.hash_none) == (1, 1, 1)
    assert report.zero_output == 1
    assert found.sessions[1].turns[0].output_tokens == 1
    # The second row finds block 7 in the cache, of 1100 + 1024 + 600 tokens.
    assert prefix_hit(found.sessions) == 512 / 2724


def conversation(*, delta: bool, ids: bool) -> list[dict[str, Any]]:
    """Three turns of 1024, 600 and 600 tokens with replies of 100, and a row of another session."""
    own = [[1, 2], [3], [4]] if delta else [[1, 2], [1, 2, 5], [1, 2, 5, 6]]
    sizes = [1024, 600, 600] if delta else [1024, 1724, 2424]
    rows = [row(n * 1000, size, 100, session_id="s") for n, size in enumerate(sizes)]
    if ids:
        for each, blocks in zip(rows, own, strict=True):
            each["hash_ids"] = blocks
    return [rows[0], row(500, 700, session_id=8), *rows[1:]]


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("delta", [True, False])
def test_the_meaning_of_lengths_is_told_by_the_rows(tmp_path: Path, delta: bool, ids: bool) -> None:
    found = read_corpus(write(tmp_path, *conversation(delta=delta, ids=ids)))
    other, session = found.sessions
    assert (other.id, session.id) == ("8", "s")
    assert [turn.input_tokens for turn in session.turns] == [1024, 1724, 2424]
    assert [turn.after for turn in session.turns] == [(), (0,), (1,)]
    assert [turn.gap_ns for turn in session.turns] == [0, 1_000_000_000, 1_000_000_000]
    blocks = [turn.block_ids.tolist() for turn in session.turns]
    assert blocks[0] == blocks[1][:2] == blocks[2][:2]
    assert blocks[1] == blocks[2][:3]
    assert [len(own) for own in blocks] == [2, 3, 4]
    counts = (found.report.rows_cumulative, found.report.rows_delta)
    assert counts == ((0, 4) if delta else (4, 0))
    assert found.report.rows_disagreeing == 0
    if ids and delta:
        # Only what the recorder hashed is shared with other sessions.
        assert (session.common_ids, blocks[2]) == (3, [1, 2, 3, 4])


def test_the_meaning_can_be_asked_and_what_speaks_against_it_is_counted(tmp_path: Path) -> None:
    path = write(tmp_path, *conversation(delta=False, ids=True))
    found = read_corpus(path, DELTA)
    assert [turn.input_tokens for turn in found.sessions[1].turns] == [1024, 2848, 5372]
    assert (found.report.rows_delta, found.report.rows_disagreeing) == (4, 2)


def test_a_delay_is_a_gap_from_the_end(tmp_path: Path) -> None:
    rows = [row(3, 600, session_id="s"), {**row(0, 1200, session_id="s"), "delay": 250}]
    del rows[1]["timestamp"]
    (session,) = read_corpus(write(tmp_path, *rows)).sessions
    assert [turn.gap_ns for turn in session.turns] == [0, 250_000_000]
    assert session.start_ns == 3_000_000


def test_ids_of_any_size_are_kept_apart(tmp_path: Path) -> None:
    large = 2**63 - 2
    found = read_corpus(
        write(tmp_path, row(0, 1024, hash_ids=[large, 3]), row(1, 512, hash_ids=[large]))
    )
    assert [contexts(s)[0][1] for s in found.sessions] == [[large, 3], [large]]
    assert prefix_hit(found.sessions) == 512 / 1536


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (row(-1, 10), "timestamp: expected milliseconds in [0, 2e+12], got -1"),
        (row(0, 0), "input_length: expected an integer from 1 to 100000000 (tokens), got 0"),
        (row(0, 10, -1), "output_length: expected an integer from 0 to"),
        ({"input_length": 5, "output_length": 1}, "timestamp: missing; expected milliseconds"),
        ({"timestamp": 5, "output_length": 1}, "input_length: missing; expected an integer"),
        (row(0, 600, hash_ids=[1, 2, 3]), "hash_ids: expected 1 or 2 ids for 600 tokens in blocks"),
        (row(0, 600, hash_ids=[-1]), "hash_ids: expected a list of integers in [0, 2^63)"),
        (row(0, 600, hash_ids=[1.5]), "hash_ids: expected a list of integers in [0, 2^63)"),
        (row(0, 600, block_size=64), "block_size: expected 512, got 64"),
        (row(0, 600, session_id=[]), "session_id: expected a text or an integer"),
        ('{"timestamp": 5, "inp', "not valid JSON at column "),
        ([], "expected an object"),
    ],
)
def test_a_bad_row_names_its_line_and_field(tmp_path: Path, bad: object, told: str) -> None:
    path = write(tmp_path, row(0, 10), bad, row(1, 10))
    with pytest.raises(InputError) as caught:
        read_corpus(path)
    (problem,) = map(str, caught.value.problems)
    assert problem.startswith(f"{path}:2: {told}")
    rest = read_corpus(path, ReadOptions(skip_bad=True))
    assert [s.id for s in rest.sessions] == ["a.jsonl:1", "a.jsonl:3"]


def test_decreasing_times_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.jsonl:2: timestamp: 4 is before 5 of a row above"):
        read_corpus(write(tmp_path, row(5, 10), row(4, 10)))


def test_a_bad_row_spoils_its_session_and_no_other(tmp_path: Path) -> None:
    rows = [row(0, 9, session_id="a"), row(1, 0, session_id="a"), row(2, 9, session_id="b")]
    found = read_corpus(
        write(tmp_path, *rows, row(3, 9, session_id="a")), ReadOptions(skip_bad=True)
    )
    assert [session.id for session in found.sessions] == ["b"]
    assert found.report.skipped == 1


def test_unknown_fields_are_counted_and_block_sizes_can_be_asked(tmp_path: Path) -> None:
    path = write(tmp_path, row(0, 40, hash_ids=[1, 2], mood="good"))
    found = read_corpus(path, ReadOptions(block_size=16))
    assert found.report.unknown_fields == {"mood": 1}
    assert (found.sessions[0].block_size, contexts(found.sessions[0])) == (16, [(40, [1, 2])])


def test_lines_stream(tmp_path: Path) -> None:
    """What is held does not grow with the number of lines."""

    def peak(count: int) -> int:
        path = tmp_path / f"{count}.jsonl"
        path.write_text("".join(json.dumps(row(n, 600, hash_ids=[n])) + "\n" for n in range(count)))
        tracemalloc.start()
        assert sum(1 for _ in stream(path, Reading(ReadOptions()))) == count
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    few, many = peak(500), peak(5000)
    assert many < few + 200_000


@pytest.fixture(scope="module")
def recorded(shared_data: Path) -> Corpus:
    return read_corpus(shared_data / "mooncake")


def test_the_released_trace(recorded: Corpus) -> None:
    report = recorded.report
    assert (report.sessions, report.hash_ceil, report.hash_floor) == (12_031, 12_009, 22)
    assert recorded.sessions[-1].start_ns == 3_536_999_000_000
    assert prefix_hit(recorded.sessions) == pytest.approx(0.3734, abs=1e-4)
