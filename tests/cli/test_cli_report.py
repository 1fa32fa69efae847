"""`report`: the page of a run and of a point, and what it must not write over."""

from __future__ import annotations

import re
from pathlib import Path

import orjson
import pytest
from command_line import SMALL, call

from inferometer.store import RunDir


@pytest.fixture
def run(tmp_path: Path) -> Path:
    assert call("predict", *SMALL, "--out", tmp_path / "run").code == 0
    return tmp_path / "run"


def test_a_point_has_a_page_in_its_directory(run: Path) -> None:
    name = RunDir(run).manifest().points[0].id
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    said = call("report", run, "--point", name)
    page = run / "points" / name / "point.html"
    assert said.code == 0
    assert said.out == f"{page}\n"
    assert name in page.read_text("utf-8")
    assert call("report", run, "--point", name).code == 0
    assert {path: path.read_bytes() for path in before} == before


def test_an_unknown_point_is_told_the_nearest(run: Path) -> None:
    name = RunDir(run).manifest().points[0].id
    said = call("report", run, "--point", name[:-1] + "9")
    assert said.code == 2
    assert f"did you mean '{name[:-2]}" in said.err
    assert said.err.startswith(f"error: {run}: the run has no point ")


def test_a_point_without_result_has_no_page(run: Path) -> None:
    folder = RunDir(run).point(RunDir(run).manifest().points[1].id)
    (folder.path / "result.json").unlink()
    folder.write_failure("the engine went away")
    said = call("report", run, "--point", folder.path.name)
    assert said.code == 4
    assert "the engine went away" in said.err


@pytest.mark.parametrize("measured", ["run.json", "points/{}/records.parquet"])
def test_what_was_measured_is_not_overwritten(run: Path, measured: str) -> None:
    name = RunDir(run).manifest().points[0].id
    path = run / measured.format(name)
    before = path.read_bytes()
    for words in (("report", run), ("report", run, "--point", name)):
        said = call(*words, "--out", path)
        assert said.code == 2
        assert "not overwritten" in said.err
    assert path.read_bytes() == before


def test_no_run_is_no_page(tmp_path: Path) -> None:
    assert call("report", tmp_path, "--point", "x").code == 4


def test_sub_agents_of_a_prediction_have_rows_of_their_own(tmp_path: Path) -> None:
    replay = ("--workload", "synthetic:quickstart", "--duration", "60", "--concurrency", "6")
    small = ("--model", "Qwen/Qwen3-8B", "--gpu", "h200", "--tp", "1")
    assert call("predict", *small, *replay, "--out", tmp_path / "run").code == 0
    name = RunDir(tmp_path / "run").manifest().points[0].id
    said = call("report", tmp_path / "run", "--point", name)
    html = Path(said.out.strip()).read_text("utf-8")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', html)
    assert data is not None
    bars = orjson.loads(data[1])["requests"]
    tracks = [t for t, n in zip(bars["tracks"], bars["counts"], strict=True) for _ in range(n)]
    below = [track for track, sub in zip(tracks, bars["sub"], strict=True) if sub]
    assert below
    assert min(below) >= 1
    assert "in virtual time there is no metrics page" in html
    assert "simulated: no GPU served this point" in html
