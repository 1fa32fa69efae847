"""The Azure trace: times to the last digit, and what a wrong row is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferometer.errors import InputError
from inferometer.workload import ReadOptions, read_corpus
from inferometer.workload.azure import nanoseconds_of

HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "a.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01 00:00:00", 0),
        ("1970-01-01 00:00:01.5", 1_500_000_000),
        ("1970-01-02T00:00:00.123456789Z", 86_400_123_456_789),
        ("1970-01-01 01:00:00.0000001+01:00", 100),
    ],
)
def test_times_keep_every_digit(text: str, ns: int) -> None:
    assert nanoseconds_of(text) == ns


def test_rows_are_sessions_from_the_first_arrival_on(tmp_path: Path) -> None:
    rows = "2023-11-16 18:17:03.9799600,130,10\n2023-11-16 18:17:04.0319601,64,0\n"
    found = read_corpus(write(tmp_path, HEAD + rows))
    assert [session.start_ns for session in found.sessions] == [0, 52_000_100]
    assert [session.turns[0].block_ids.tolist() for session in found.sessions] == [[0, 1], [0]]
    assert [session.turns[0].output_tokens for session in found.sessions] == [10, 1]
    assert [session.id for session in found.sessions] == ["a.csv:2", "a.csv:3"]
    assert (found.report.zero_output, found.report.hash_none) == (1, 2)


def test_columns_stand_in_any_order_and_others_are_counted(tmp_path: Path) -> None:
    text = "\ufeffGeneratedTokens,timestamp,Mood,ContextTokens\n3,2023-11-16 18:17:03,x,7\n"
    found = read_corpus(write(tmp_path, text))
    assert found.sessions[0].turns[0].input_tokens == 7
    assert found.report.unknown_fields == {"mood": 1}


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("yesterday,1,1", "TIMESTAMP: expected a time such as"),
        ("2023-13-16 18:17:03,1,1", "TIMESTAMP: expected a time such as"),
        ("2023-11-16 18:17:03,0,1", "ContextTokens: expected an integer from 1 to 100000000"),
        ("2023-11-16 18:17:03,5,-1", "GeneratedTokens: expected an integer from 0 to"),
        ("2023-11-16 18:17:03,5", "GeneratedTokens: expected an integer from 0 to"),
        ("2023-11-16 18:17:02,5,5", "TIMESTAMP: 2023-11-16 18:17:02 is before the row above it"),
    ],
)
def test_a_bad_row_names_line_and_column(tmp_path: Path, row: str, told: str) -> None:
    path = write(tmp_path, f"{HEAD}2023-11-16 18:17:03,5,5\n{row}\n2023-11-16 18:17:09,5,5\n")
    with pytest.raises(InputError) as caught:
        read_corpus(path)
    (problem,) = map(str, caught.value.problems)
    assert problem.startswith(f"{path}:3: {told}")
    assert len(read_corpus(path, ReadOptions(skip_bad=True)).sessions) == 2


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "TIMESTAMP,ContextTokens,Generated\n")
    with pytest.raises(InputError) as caught:
        read_corpus(path)
    (problem,) = map(str, caught.value.problems)
    assert problem == (f"{path}:1: GeneratedTokens: column is missing; did you mean 'Generated'?")


def test_names_of_columns_alone_are_no_trace(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.csv:1: expected rows below the names"):
        read_corpus(write(tmp_path, HEAD))


def test_the_released_trace(shared_data: Path) -> None:
    found = read_corpus(shared_data / "azure")
    assert found.report.sessions == 8_819
    # 19:14:19.9280160 less 18:17:03.9799600, to a tenth of a microsecond.
    assert found.sessions[-1].start_ns == 3_435_948_056_000
