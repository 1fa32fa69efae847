"""What a person types or writes wrong: a message with its place, code 2, nothing left behind."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import orjson
import pytest
from command_line import SMALL, Said, call

from inferometer.cli.main import cli, main
from inferometer.store.journal import Journal
from webserver import Quiet, serving

MASTER = """\
qwen:
  image: inferometer/simulated:0.1.0
  model: Qwen/Qwen3-8B
  model-prefix: qwen3
  precision: fp8
  framework: simulated
  runner: sim-h200
  multinode: false
  scenarios:
    fixed-seq-len:
    - isl: 256
      osl: 16
      search-space:
      - { tp: 1, conc-list: [1, 2] }
"""
RUNNERS = """\
labels:
  sim-h200: [local]
hardware:
  cluster:sim-h200:
    available-cpu-dram-mib: 1_000_000
    gpus-per-node: 8
"""


def write(folder: Path, master: str = MASTER, runners: str = RUNNERS, recipe: str = "") -> None:
    (folder / "master.yaml").write_text(master)
    (folder / "runners.yaml").write_text(runners)
    if recipe:
        (folder / "recipes").mkdir()
        (folder / "recipes" / "local.yaml").write_text(recipe)


def run(folder: Path, *words: str, verb: str = "run") -> Said:
    out = folder / "out"
    runners = folder / "runners.yaml"
    said = call(verb, folder / "master.yaml", "--runners", runners, "--out", out, *words)
    assert not out.exists(), "a mistake leaves no run behind"
    return said


def errors(said: Said) -> list[str]:
    assert said.code == 2
    assert said.out == ""
    lines = said.err.splitlines()
    assert lines
    assert all(line.startswith("error: ") for line in lines)
    return [line.removeprefix("error: ") for line in lines]


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "why"),
    [
        ("  precision: fp8", "  precison: fp8", 5, "qwen.precison", "did you mean 'precision'?"),
        ("tp: 1,", 'tp: "1",', 14, "[0].tp", "expected a positive integer, got the text '1'"),
        ("  multinode: false", "  multinode: 0", 8, "qwen.multinode", "expected true or false"),
        ("[1, 2]", "[]", 14, "[0].conc-list", "expected at least one item"),
        ("[1, 2]", "[1, -2]", 14, "[0].conc-list[1]", "expected a positive integer, got -2"),
        ("runner: sim-h200", "runner: [", 9, "", "not YAML"),
        ("  framework: simulated\n", "", 1, "qwen.framework", "missing"),
    ],
)
@pytest.mark.parametrize("verb", ["run", "predict"])
def test_a_mistake_in_a_master_file_is_placed(
    tmp_path: Path, verb: str, old: str, new: str, line: int, key: str, why: str
) -> None:
    assert old in MASTER
    write(tmp_path, MASTER.replace(old, new))
    found = errors(run(tmp_path, verb=verb))
    assert all(message.startswith(f"{tmp_path}/master.yaml:") for message in found)
    (message,) = (message for message in found if why in message)
    place, _, rest = message.partition(": ")
    assert place == f"{tmp_path}/master.yaml:{line}"
    assert key in rest


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    master = MASTER.replace("isl: 256", "isl: none").replace("  precision", "  precison")
    write(tmp_path, master, RUNNERS.replace("gpus-per-node: 8", "gpus-per-node: eight"))
    found = errors(run(tmp_path))
    assert sum("master.yaml:" in line for line in found) >= 3
    assert sum("runners.yaml:6: " in line for line in found) == 1


@pytest.mark.parametrize("text", ["", "just words\n", "- a list\n", "a: b: c\n", "\x00"])
def test_a_file_that_is_no_master_file(tmp_path: Path, text: str) -> None:
    write(tmp_path, text)
    (message,) = errors(run(tmp_path))
    assert message.startswith(f"{tmp_path}/master.yaml:1: ")


def test_files_that_are_not_there_are_all_named(tmp_path: Path) -> None:
    found = errors(run(tmp_path))
    names = ("master.yaml", "runners.yaml")
    for name in names:
        assert f"{tmp_path}/{name}: cannot be read: No such file or directory" in found


def test_master_files_need_runners_and_the_quickstart_has_its_own(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "runners.yaml").rename(tmp_path / "machines.yaml")
    found = errors(call("run", tmp_path / "master.yaml"))
    why = "the master files have no runners.yaml beside them"
    assert found == [f"--runners FILE is needed: {why}"]
    found = errors(call("run", "quickstart", "--runners", tmp_path / "runners.yaml"))
    assert found == ["--runners goes only with master files; quickstart has its own"]


def test_the_runner_file_beside_the_master_files_is_taken(tmp_path: Path) -> None:
    write(tmp_path)
    said = call("plan", tmp_path / "master.yaml", "--format", "json")
    assert (said.code, said.out.count("\n")) == (0, 2)
    other = tmp_path / "other"
    other.mkdir()
    write(other)
    found = errors(call("plan", tmp_path / "master.yaml", other / "master.yaml"))
    assert found == ["--runners FILE is needed: the master files lie in several directories"]


def test_a_word_that_is_mistyped_is_no_missing_runner_file() -> None:
    found = errors(call("plan", "newr", "quickstrt"))
    assert found == [
        "newr: no such file or directory; did you mean 'newer'?",
        "quickstrt: no such file or directory; did you mean 'quickstart'?",
    ]


def test_a_runner_and_a_master_file_that_changed_places_are_two_lines(tmp_path: Path) -> None:
    write(tmp_path, RUNNERS, MASTER)
    assert errors(run(tmp_path)) == [
        f"{tmp_path}/runners.yaml: is a master file, not a runner file",
        f"{tmp_path}/master.yaml: is a runner file: name it with --runners",
    ]


def test_a_file_in_place_of_a_run_directory(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("mine")
    said = call("predict", "quickstart", "--conc", "1", "--out", place)
    assert (said.code, said.out) == (4, "")
    assert said.err == f"error: {place}: is no directory; choose another one\n"
    assert place.read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--key", "qwn*"], "no config key matches 'qwn*'"),
        (["--key", "qwen", "--conc", "3"], "no point has concurrency 3; there are: 1, 2"),
        (["--conc", "-1"], "no point has concurrency -1"),
        (["--scenario", "agentic"], "no point has scenario 'agentic'"),
    ],
)
def test_a_filter_that_nothing_passes_says_what_there_is(
    tmp_path: Path, words: list[str], why: str
) -> None:
    write(tmp_path)
    (message,) = errors(run(tmp_path, *words))
    assert why in message
    assert "there are: " in message


@pytest.mark.parametrize(
    ("recipe", "place", "why"),
    [
        ("- workload:\n    duration: 5\n", ":2: [0].workload.duration", "'duration_s'"),
        ("- client:\n    grace_s: soon\n", ":2: client.grace_s", "a number of seconds"),
        ("- when: conc >\n  env: {A: b}\n", ":1: [0].when", ""),
        ("- argv:\n    --x: '{cnoc}'\n", ":2: [0].argv.--x", "did you mean 'conc'?"),
        ("rules: []\n", ":1: ", "expected a list at the top"),
    ],
)
def test_a_mistake_in_a_recipe_is_placed(tmp_path: Path, recipe: str, place: str, why: str) -> None:
    write(tmp_path, recipe=recipe)
    for message in errors(run(tmp_path)):
        assert message.startswith(f"{tmp_path}/recipes/local.yaml{place}")
        assert why in message


def test_a_framework_without_a_recipe_is_told(tmp_path: Path) -> None:
    write(tmp_path, MASTER.replace("framework: simulated", "framework: simulate"))
    (message,) = errors(run(tmp_path))
    assert "no recipe for framework 'simulate'; did you mean 'simulated'?" in message


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--gpu", "h300"], "--gpu: unknown GPU 'h300'; did you mean "),
        (["--model", "Qwen/Qwen3-9B"], "unknown model 'Qwen/Qwen3-9B'; did you mean "),
        (["--precision", "fp16"], "invalid choice: 'fp16'"),
        (["--workload", "synthetic:quick"], "did you mean 'quickstart'?"),
        (["--workload", "no/traces"], "no/traces: no such file or directory"),
        (["--duration", "inf"], "workload.duration_s: expected a number of seconds above 0"),
    ],
)
def test_a_value_that_predict_cannot_use(tmp_path: Path, words: list[str], why: str) -> None:
    small = [word for word in SMALL if word != "--requests" and word != "100"]
    if "--workload" in words:  # sessions bring their own lengths
        small = []
    (message,) = errors(call("predict", *small, *words, "--out", tmp_path / "out"))
    assert why in message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["predict", "quickstart", "--isl", "5"], "--isl goes only without FILES"),
        (["predict", "quickstart", "--model", "x"], "--model goes only without FILES"),
        (["predict", "quickstart", "--concurrency", "1"], "--concurrency goes only without FILES"),
        (["predict", "--key", "x"], "--key goes only with FILES"),
        (["predict", "--conc", "1"], "--conc goes only with FILES"),
        (["predict", "--runners", "x"], "--runners goes only with FILES"),
        (["predict", "--scenario", "fixed"], "--scenario goes only with FILES"),
        (["predict", "--duration", "1", "--requests", "1"], "exclude each other"),
        (["predict", "--tp", "0"], "'--tp'"),
        (["run"], "Missing argument 'FILES...'"),
        (["run", "quickstart", "--format", "xml"], "'--format'"),
        (["run", "quickstart", "--outt", "x"], "No such option"),
        (["bench"], "Missing argument 'URL'"),
        (["bench", "http://h", "--concurrency", "0"], "not a list of positive integers"),
        (["bench", "http://h", "--concurrency", "1,,2"], "not a list of positive integers"),
        (["bench", "http://h", "--concurrency", "\u00b2"], "not a list of positive integers"),
        (["bench", "http://h", "--concurrency", "1,1"], "names a concurrency twice"),
        (["bench", "http://h", "--duration", "1", "--requests", "1"], "exclude each other"),
        (["bench", "http://h", "--duration", "0"], "'--duration'"),
        (["bench", "http://h", "--isl", "0"], "'--isl'"),
        (["show"], "Missing argument 'RUN'"),
    ],
)
def test_options_that_do_not_go_together(words: list[str], why: str) -> None:
    said = call(*words)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("Usage: inferometer ")
    assert why in said.err.splitlines()[-1]


@pytest.mark.parametrize("url", ["ftp://h", "http://", "http://h:99999"])
def test_a_url_that_is_none(url: str) -> None:
    *faults, hint = errors(call("bench", url))
    assert all(repr(url) in fault for fault in faults)
    assert hint == "expected the URL of an engine: http://HOST:PORT"


def test_nobody_at_the_url_is_one_line_and_code_3(tmp_path: Path) -> None:
    said = call("bench", "http://127.0.0.1:1", "--out", tmp_path / "out")
    assert (said.code, said.out) == (3, "")
    assert said.err == "error: http://127.0.0.1:1/v1/models: no answer (Connection refused)\n"
    assert not (tmp_path / "out").exists()


class Models(Quiet):
    """Lists one model, and is nothing more."""

    def answer(self) -> tuple[int, bytes]:
        return 200, b'{"data": [{"id": "some-model"}]}'


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(Models) as at:
        yield at


@pytest.mark.sockets
def test_a_workload_that_is_not_there(url: str, tmp_path: Path) -> None:
    said = call("bench", url, "--workload", tmp_path / "none", "--out", tmp_path / "out")
    assert said.code == 2
    *notes, message = said.err.splitlines()
    assert [note.partition(": ")[0] for note in notes] == ["seed"]
    assert message == f"error: {tmp_path}/none: no such file or directory"
    assert not (tmp_path / "out").exists()


def test_blocks_that_the_engine_cannot_have_are_told(tmp_path: Path) -> None:
    row = {**REQUEST, "hash_ids": list(range(10))}
    whole = {"id": "s", "block_size": 7, "hash_id_scope": "local", "requests": [row]}
    trace = tmp_path / "trace.json"
    trace.write_bytes(orjson.dumps(whole))
    words = ("--workload", trace, "--duration", "1", "--concurrency", "1", "--out", tmp_path / "x")
    said = call("predict", *SMALL[:6], *words)
    assert (said.code, said.out) == (2, "")
    (message,) = (line for line in said.err.splitlines() if line.startswith("error: "))
    assert "blocks of 7 tokens, which do not make the engine's blocks of 64" in message


def test_a_port_that_is_none_is_told() -> None:
    (message,) = errors(call("engine", "simulated", *SMALL[:4], "--port", "99999"))
    assert message == "--port: 99999 is above 65535"


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "there"), "there: Permission denied"),
    ],
)
def test_a_fault_of_the_disk_is_the_user_s(
    fault: OSError, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "main", Mock(side_effect=fault))
    said = call("show")
    assert (said.code, said.out, said.err) == (4, "", f"error: {told}\n")


def test_a_disk_that_fills_up_ends_a_prediction_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr(Journal, "flush", tried)
    many = [*SMALL[:-6], "--requests", "2000", "--warmup", "1", "--concurrency", "8"]
    said = call("predict", *many, "--out", tmp_path / "out")
    assert (said.code, said.out) == (4, "")
    assert "Traceback" not in said.err
    assert said.err.splitlines()[1:] == ["error: No space left on device"]
    assert tried.call_count < 10


def test_a_fault_of_our_own_sockets_is_not_dressed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
    monkeypatch.setattr(cli, "main", Mock(side_effect=fault))
    monkeypatch.setattr(sys, "argv", ["inferometer", "show"])
    with pytest.raises(ConnectionResetError):
        main()


REQUEST = {"t": 0.0, "type": "n", "in": 70, "out": 9, "hash_ids": [1], "api_time": 0.5}
TRACE = {"id": "s1", "block_size": 64, "models": ["m"], "requests": [REQUEST, REQUEST]}


@pytest.mark.parametrize("verb", ["predict", "bench"])
@pytest.mark.sockets
def test_a_trace_with_a_missing_field_names_it(url: str, tmp_path: Path, verb: str) -> None:
    broken = {name: value for name, value in REQUEST.items() if name != "out"}
    trace = tmp_path / "trace.json"
    trace.write_bytes(orjson.dumps(TRACE | {"requests": [REQUEST, broken]}))
    words = ("bench", url) if verb == "bench" else ("predict", *SMALL[:6])
    more = ("--workload", trace, "--duration", "1", "--concurrency", "1", "--out", tmp_path / "out")
    said = call(*words, *more)
    assert said.code == 2
    message = said.err.splitlines()[-1]
    assert message.startswith(f"error: {trace}: requests[1].out: ")
    assert "Traceback" not in said.err


@pytest.mark.parametrize("length", ["--isl", "--osl"])
def test_lengths_do_not_go_with_sessions(length: str) -> None:
    words = ("--workload", "synthetic:quickstart", length, "77")
    for verb in (("predict",), ("bench", "http://127.0.0.1:9")):
        said = call(*verb, *words)
        assert said.code == 2
        assert f"{length} goes only without --workload" in said.err


@pytest.mark.parametrize("kind", ["pipe", "/dev/zero"])
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["plan", "IT", "--runners", "IT"], 2),
        (["run", "quickstart", "--site", "IT"], 2),
        (["predict", "--workload", "IT"], 2),
        (["workload", "validate", "IT"], 2),
        (["doctor", "IT"], 2),
        (["show", "IT"], 4),
        (["report", "IT"], 4),
        (["show", "RUN"], 4),
    ],
)
def test_what_is_no_file_is_refused_at_once(
    kind: str, words: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    pipe, manifest = tmp_path / "pipe", tmp_path / "run" / "run.json"
    os.mkfifo(pipe)
    manifest.symlink_to(pipe if kind == "pipe" else kind)
    # A reader that waits for a writer would wait here for ever.
    said = call(*(word.replace("IT", kind).replace("RUN", "run") for word in words))
    assert said.code == code
    assert all(line.startswith("error: ") for line in said.err.splitlines())
    named = "run/run.json: not a file" if "RUN" in words else kind
    assert named in said.err
    assert not (tmp_path / "runs").exists()
