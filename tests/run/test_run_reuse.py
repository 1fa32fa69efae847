"""Results of another run are taken over exactly when the digest is equal, and say from where."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from sweep_setup import Files, Seen, make_sweep, write_files

from inferometer import MEASUREMENT_VERSION
from inferometer.audit import stored_results
from inferometer.core import Slo
from inferometer.errors import StoreError
from inferometer.plan import expand_arms, load_configs, load_recipes, read_file, recipe_roots
from inferometer.report import render
from inferometer.report.stored import view_of
from inferometer.run.jobs import Overrides
from inferometer.run.lacking import stale_arms
from inferometer.run.reuse import GOODPUT, NOTE
from inferometer.run.sweep import run_sweep
from inferometer.store import RunDir

ONE, THREE = "fixed_256_16_tp1_c1", "fixed_256_16_tp1_c3"


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return write_files(tmp_path / "config", seconds=1)


@pytest.fixture
def first(files: Files, tmp_path: Path) -> RunDir:
    """A run of both points, made valid: what is tested is who takes it, not how it went."""
    run = RunDir(tmp_path / "store" / "first")
    run_sweep(make_sweep(files), run, Seen())
    for name in (ONE, THREE):
        judged(run, name, "valid")
    return run


def judged(run: RunDir, name: str, level: str) -> None:
    path = run.point(name).path / "result.json"
    result = orjson.loads(path.read_bytes())
    result["verdict"] = {"level": level, "reasons": [], "labels": []}
    path.write_bytes(orjson.dumps(result))


def test_what_a_run_measured_is_not_measured_again(tmp_path: Path) -> None:
    """From end to end, with the verdict as it falls."""
    files = write_files(tmp_path / "config", seconds=4, conc=(1,))
    first = RunDir(tmp_path / "store" / "first")
    (measured,) = run_sweep(make_sweep(files), first, Seen()).results
    assert measured.verdict.level == "valid"
    stored = stored_results([tmp_path / "store"], virtual=True)
    again, seen = RunDir(tmp_path / "again"), Seen()
    (taken,) = run_sweep(make_sweep(files), again, seen, stored).results
    assert (seen.points, seen.done) == ([], 1)
    assert replace(taken, notes=measured.notes) == measured
    assert str(first.point(ONE).path) in taken.notes[NOTE]
    assert str(first.point(ONE).path) in render(view_of(again))
    # Of a run that took it over, the first place is told.
    third = RunDir(tmp_path / "third")
    stored = stored_results([tmp_path / "again"], virtual=True)
    (handed_on,) = run_sweep(make_sweep(files), third, Seen(), stored).results
    assert handed_on.notes[NOTE] == taken.notes[NOTE]
    # One flag of the engine is another experiment.
    files.add_rule("- argv: { --max-num-seqs: 7 }\n")
    other, seen = RunDir(tmp_path / "other"), Seen()
    (fresh,) = run_sweep(make_sweep(files), other, seen, stored).results
    assert seen.points == [ONE]
    assert fresh.digest != measured.digest
    assert NOTE not in fresh.notes


def test_other_bounds_are_held_against_the_same_records(
    files: Files, first: RunDir, tmp_path: Path
) -> None:
    stored = stored_results([tmp_path / "store"], virtual=True)
    bounds = (Slo("ttft", 1e-9),)
    second, seen = RunDir(tmp_path / "second"), Seen()
    run_sweep(replace(make_sweep(files), slos=bounds), second, seen, stored)
    assert seen.points == []
    old, new = first.point(ONE).result(), second.point(ONE).result()
    assert (old.slos, new.slos) == ((), bounds)
    assert new.metrics["slo_met_share"] == 0
    assert {n: v for n, v in new.metrics.items() if not n.startswith(GOODPUT)} == old.metrics
    third = RunDir(tmp_path / "third")
    run_sweep(make_sweep(files), third, Seen(), stored_results([second.path], virtual=True))
    assert third.point(ONE).result().metrics == old.metrics


def test_a_run_that_goes_on_with_other_bounds_holds_all_its_points_against_them(
    files: Files, tmp_path: Path
) -> None:
    run = RunDir(tmp_path / "store" / "goes-on")
    run_sweep(make_sweep(files), run, Seen())
    old, bounds = run.point(ONE).result(), (Slo("chunk_gap_max", 1e-9),)
    seen = Seen()
    run_sweep(replace(make_sweep(files), slos=bounds), run, seen)
    new = run.point(ONE).result()
    assert seen.points == []
    assert (new.slos, new.metrics["slo_met_share"]) == (bounds, 0)
    assert {n: v for n, v in new.metrics.items() if not n.startswith(GOODPUT)} == old.metrics
    # No bounds are no other bounds.
    run_sweep(make_sweep(files), run, Seen())
    assert run.point(ONE).result() == new


@pytest.mark.parametrize("data_apart", [False, True])
def test_what_another_version_measured_is_not_fresh(
    first: RunDir, tmp_path: Path, data_apart: bool
) -> None:
    path = first.point(ONE).path / "result.json"
    result = orjson.loads(path.read_bytes())
    stored = stored_results([tmp_path / "store"], data_apart=data_apart, virtual=True)
    assert len(stored) == 2
    path.write_bytes(orjson.dumps(result | {"measurement_version": MEASUREMENT_VERSION - 1}))
    stored = stored_results([tmp_path / "store"], data_apart=data_apart, virtual=True)
    assert [each.folder.name for each in stored.values()] == [THREE]


def test_equal_digests_are_taken_over_and_say_from_where(
    files: Files, first: RunDir, tmp_path: Path
) -> None:
    stored = stored_results([tmp_path / "store"], virtual=True)
    second, seen = RunDir(tmp_path / "second"), Seen()
    outcome = run_sweep(make_sweep(files), second, seen, stored)
    assert [result.point.id for result in outcome.results] == [ONE, THREE]
    for name in (ONE, THREE):
        old, new = first.point(name), second.point(name)
        assert new.result().metrics == old.result().metrics
        assert new.result().digest == old.result().digest
        assert first.manifest().id in new.result().notes[NOTE]
        assert [r.request_id for r in new.records()] == [r.request_id for r in old.records()]
    assert first.manifest().id in render(view_of(second))


def test_another_digest_is_measured(files: Files, first: RunDir, tmp_path: Path) -> None:
    stored = stored_results([tmp_path / "store"], virtual=True)
    sweep = make_sweep(files, overrides=Overrides({"seed": 7}, {}))
    outcome = run_sweep(sweep, RunDir(tmp_path / "second"), Seen(), stored)
    assert all(NOTE not in result.notes for result in outcome.results)
    assert {r.digest for r in outcome.results}.isdisjoint(stored)


@pytest.mark.parametrize("level", ["invalid", "degraded"])
def test_a_result_that_is_not_valid_is_measured_again(
    files: Files, first: RunDir, tmp_path: Path, level: str
) -> None:
    judged(first, ONE, level)
    stored = stored_results([tmp_path / "store"], virtual=True)
    outcome = run_sweep(make_sweep(files), RunDir(tmp_path / "second"), Seen(), stored)
    assert [NOTE in result.notes for result in outcome.results] == [False, True]


def test_stale_points_are_those_without_a_valid_result(
    files: Files, first: RunDir, tmp_path: Path
) -> None:
    masters = [str(files.master)]
    arms = expand_arms(load_configs(masters, str(files.runners)))
    recipes = load_recipes(read_file, recipe_roots(masters))
    stored = stored_results([tmp_path / "store"], virtual=True)
    assert stale_arms(arms, recipes, stored).arms == ()
    judged(first, THREE, "invalid")
    stored = stored_results([tmp_path / "store"], virtual=True)
    assert [p.id for arm in stale_arms(arms, recipes, stored).arms for p in arm] == [THREE]
    # A prediction is no measurement.
    left = stale_arms(arms, recipes, stored_results([tmp_path / "store"]))
    assert [p.id for arm in left.arms for p in arm] == [ONE, THREE]


def test_a_store_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such store"):
        stored_results([tmp_path / "gone"])
