"""Known failures as engines print them, what looks alike and is none, and logs that are unkind."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from inferometer.engine import patterns as module
from inferometer.engine.logreport import LogReport
from inferometer.engine.patterns import Pattern, alternatives, known, pattern
from inferometer.engine.triage import MAX_LINE, STOP_MARK, triage, triage_file, triage_files

LINES = yaml.safe_load((Path(__file__).parent / "failing_lines.yaml").read_text("utf-8"))
CASES = [(name, text) for name, texts in LINES["failures"].items() for text in texts]
BEFORE = "INFO 01-02 03:04:05 starting"
PREFIXES = (
    "(EngineCore_DP0 pid=123) ERROR 11-30 09:15:37 [core.py:708] ",
    "[2026-11-30 09:15:37 DP1 TP3] ",
    "\x1b[0;36m(Worker_TP3 pid=812)\x1b[0;0m ",
    "\x1b]0;title\x07\x1b[?25lLoading: 10%\rLoading: 20%\r",
)


@pytest.mark.parametrize(("name", "text"), CASES)
def test_a_failure_is_named_however_the_line_is_dressed(name: str, text: str) -> None:
    lines = text.split("\n")
    assert cause(BEFORE, *lines, "bye") == name
    for prefix in PREFIXES:
        assert cause(BEFORE, *(prefix + line.strip() for line in lines), "bye") == name


@pytest.mark.parametrize("text", LINES["sound"])
def test_what_only_looks_like_a_failure_is_none(text: str) -> None:
    assert cause(BEFORE, text) is None


def test_a_line_shows_one_failure() -> None:
    report = log("RuntimeError: HIP error: out of memory", "RuntimeError: HIP error: again")
    assert [failure.name for failure in report.failures] == ["out of GPU memory", "driver"]
    assert report.failures[1].text.endswith("again")


def test_a_line_that_says_why_is_shown_before_one_that_says_that() -> None:
    report = log(
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for SchedulerConfig",
        "  Value error, max_num_batched_tokens (2) is smaller than max_model_len (4). [type=value]",
    )
    (failure,) = report.failures
    assert (failure.name, failure.line) == ("argument refused", 2)


def test_a_death_while_graphs_are_captured_is_one_of_the_capture() -> None:
    died = "RuntimeError: Rank 0 scheduler died during initialization (exit code: -9)."
    bar = "\r".join(f"Capturing CUDA graphs: {part}%" for part in range(0, 60, 2))
    assert cause(BEFORE, bar, died) == "graph capture killed"
    assert cause(BEFORE, bar, "Application startup complete.", died) == "process killed"
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    assert cause(BEFORE, bar, oom, died) == "out of GPU memory"


def test_what_came_before_the_engine_served_is_not_what_ended_it() -> None:
    warned = "node7:1:2 [0] NCCL WARN Call to connect failed"
    report = log(warned, "Application startup complete.", "KeyError: 'x'")
    assert report.ending is None
    assert [failure.served_after for failure in report.failures] == [True]
    again = log(warned, "Application startup complete.", f"{warned} : again")
    assert again.ending is not None
    assert again.ending.line == 3


def test_one_exit_code_of_many_is_seen() -> None:
    codes = [f"Worker {number} ended with exit code {number}" for number in (0, 0, 1, 137, 0)]
    assert cause(BEFORE, *codes) == "process killed"


def test_the_fault_is_shown_though_noise_follows_it() -> None:
    noise = [f"INFO stopping part {chr(97 + number)}" for number in range(20)]
    report = log(BEFORE, "Traceback (most recent call last):", "KeyError: 'frob'", *noise)
    assert report.failures == ()
    assert report.errors == ("Traceback (most recent call last):", "KeyError: 'frob'")
    assert report.last[-1] == "INFO stopping part t"


def test_a_packed_log_and_one_that_is_cut_off(tmp_path: Path) -> None:
    body = "\n".join(
        f"INFO line {number} {random.Random(number).random()}" for number in range(999)
    )
    whole = gzip.compress(f"CUDA out of memory. Tried 1\n{body}\n".encode())
    packed = tmp_path / "server.log"
    packed.write_bytes(whole)
    report = triage_file(packed)
    assert (report.lines, report.cut_off) == (1_000, False)
    assert report.failures[0].name == "out of GPU memory"
    packed.write_bytes(whole[: len(whole) // 2])
    report = triage_file(packed)
    assert report.cut_off
    assert 0 < report.lines < 1_000


def test_a_log_in_parts_is_one_log(tmp_path: Path) -> None:
    parts = [tmp_path / name for name in ("server.log", "server.tail.1.log", "server.tail.log")]
    texts = ("10:00:00 a", "b", "10:00:09 server is listening on x")
    for part, text in zip(parts, texts, strict=True):
        part.write_text(f"{text}\n")
    report = triage_files(parts)
    assert (report.lines, report.phases[0].at_s) == (3, 9)


def test_a_line_without_end_is_read_in_pieces_and_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "bar.log"
    with path.open("wb") as file:
        for number in range(4_000):
            file.write(b"Capturing batches: %d %s\r" % (number, b"#" * 200))
        file.write(b"torch.OutOfMemoryError: CUDA out of memory.\r\nlast\n")
    report = triage_file(path)
    assert report.lines == 2
    assert report.failures[0].name == "out of GPU memory"
    assert report.phase == "capturing graphs"


def test_an_empty_log_and_one_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"")
    assert triage_file(path).lines == 0
    path.write_bytes("OSError: Platz weg: No space left on device\u00e4\n".encode("latin-1"))
    assert triage_file(path).failures[0].name == "disk full"
    path.write_bytes("CUDA out of memory. Tried\r\n".encode("utf-16"))
    assert triage_file(path).failures[0].name == "out of GPU memory"


def test_nothing_that_a_terminal_would_obey_is_shown() -> None:
    report = log("a\x1b[31mred\x1b[0m \x1b]52;c;AAAA\x07b\x9bc\x00d\te\x08")
    assert report.last == ("ared bcd e",)


def test_numbers_that_are_none_are_no_facts() -> None:
    report = log(
        "Available KV cache memory: ... GiB",
        "GPU KV cache size: , tokens",
        f"max_total_num_tokens={'9' * 400}",
        "Model loading took 1.2.3 GiB and 4 seconds",
    )
    assert report.facts == {"weights_s": 4.0}


def test_pools_as_their_engines_tell_them() -> None:
    gib = 1 << 30
    sglang = log(
        "[2026-11-30 09:15:37 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 434364, "
        "K size: 26.50 GB, V size: 26.50 GB"
    )
    assert sglang.facts == {"kv_pool_bytes": 53 * gib, "kv_pool_tokens": 434_364}
    trt = log("[MemUsageChange] Allocated 53.00 GiB for max tokens in paged KV cache (868960).")
    assert trt.facts == {"kv_pool_bytes": 53 * gib, "kv_pool_tokens": 868_960}
    llama = log(
        "print_info: file size   = 4.00 GiB (4.89 BPW)",
        "llama_kv_cache: size =  512.00 MiB (  4096 cells,  32 layers,  1/1 seqs), K: 1 MiB",
    )
    assert llama.facts == {
        "weights_bytes": 4 * gib,
        "kv_pool_bytes": gib // 2,
        "kv_pool_tokens": 4096,
    }


def test_a_phase_without_a_stamp_has_that_of_the_last_line_before_it() -> None:
    ticks = [f"INFO 01-02 03:04:{second:02} compile kernel {second}" for second in range(60)]
    report = log(*ticks, "a bar", "INFO:     Application startup complete.")
    assert report.phases[0].at_s == 59


def test_a_writer_that_is_a_second_behind_is_not_a_day_ahead() -> None:
    report = log("01-02 03:04:05 a", "01-02 03:04:04 Application startup complete.")
    assert report.phases[0].at_s == 0


def test_an_address_of_hardware_is_no_time() -> None:
    report = log("mac 02:42:11:22:33:44 up", "10:00:05 x", "10:00:09 Application startup complete.")
    assert report.phases[0].at_s == 4


def test_behind_the_stop_nothing_is_a_failure_or_a_fault() -> None:
    report = log("INFO up", STOP_MARK, "RuntimeError: x", "CUDA out of memory.")
    assert (report.failures, report.errors, report.stopped) == ((), (), True)


def test_every_alternative_has_a_text_to_look_for_and_no_capital() -> None:
    assert list(texts_of_table())
    for text in texts_of_table():
        bare = text.replace("\\S", "").replace("\\W", "").replace("\\B", "").replace("\\D", "")
        assert bare == bare.lower()
        assert pattern([text]).alternatives
    with pytest.raises(ValueError, match="no literal text"):
        pattern(["long enough|a.b.c"])


def test_the_text_looked_for_is_in_every_line_that_matches() -> None:
    every = [rule.pattern for rule in known().failures]
    for _, text in CASES:
        for line in text.lower().split("\n"):
            for each in every:
                assert bare_search(each, line) == (each.search(line.strip()) is not None)


@given(st.lists(st.sampled_from(["a", "bc", "(?:d|e)", "[|x]", r"\|", "f?", "."]), min_size=1))
def test_a_pattern_is_parted_at_its_outer_bars_alone(parts: list[str]) -> None:
    text = "".join(parts)
    assert alternatives(text) == [text]
    assert alternatives(f"{text}|{text}") == [text, text]


def test_a_log_of_any_kind_of_line_is_held_in_bounds() -> None:
    letters = random.Random(7)
    made = ["".join(letters.choices("abcdefgh \t[]:.", k=MAX_LINE * 2)) for _ in range(50)]
    report = log(*made)
    assert report.lines == 50
    assert all(len(text) <= MAX_LINE for text in report.last)


@pytest.mark.parametrize("sign", ["-", "- ", "[", "()", "(", "1", ":", "{", "[] ", "\x1b[", "t "])
def test_no_line_of_one_sign_is_tried_for_ever(sign: str) -> None:
    """A pattern that can part a line in many ways would try them all."""
    text = sign * (MAX_LINE // len(sign))
    report = log(text, f"{text}x", f"{text} info", "CUDA out of memory.")
    assert [failure.line for failure in report.failures] == [4]


def bare_search(each: Pattern, line: str) -> bool:
    return any(expression.search(line.strip()) for _, expression in each.alternatives)


def texts_of_table() -> Iterator[str]:
    table = yaml.safe_load((Path(module.__file__).parent / "data" / "log.yaml").read_text())
    yield from table.pop("stops")
    for entries in table.values():
        for entry in entries:
            yield from entry["patterns"]
            yield from entry.get("weaker", [])
            for texts in entry.get("during", {}).values():
                yield from texts


def cause(*lines: str) -> str | None:
    ending = log(*lines).ending
    return None if ending is None else ending.name


def log(*lines: str) -> LogReport:
    return triage([f"{line}\n".encode() for line in lines])
