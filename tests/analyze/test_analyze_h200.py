"""Points measured on a real H200, analyzed again: every figure, note and verdict is as kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferometer.analyze import PointInputs, Versions, analyze_point
from inferometer.core import Result
from inferometer.store import FORMAT, PointDir

RESULTS = Path(__file__).resolve().parents[2] / "bench/results/h200-qwen3-8b"
POINTS = ("start/points/*_c8", "1k-a/points/*_c1", "8k/points/*_c1", "live/points/*")


def analyzed(folder: PointDir, kept: Result) -> Result:
    launch, client = folder.launch(), folder.client()
    return analyze_point(
        PointInputs(
            point=launch.point,
            plan=launch.plan,
            digest=launch.digest,
            records=folder.requests(sessions=launch.plan.workload.kind == "agentic"),
            samples=folder.samples(),
            client=client.client,
            totals=client.totals,
            gpus=client.gpus,
            provenance=client.provenance,
            clock=kept.clock,
            engine_died=client.engine_died,
            versions=Versions(FORMAT, kept.inferometer, kept.measurement_version),
            metrics=client.metrics,
            engine_version=client.engine_version,
            release=client.release,
        )
    )


@pytest.mark.parametrize("place", POINTS)
def test_a_point_is_judged_as_it_was(place: str) -> None:
    (found,) = RESULTS.glob(place)
    folder = PointDir(found)
    kept = folder.result()
    again = analyzed(folder, kept)
    assert dict(again.metrics) == {
        name: None if value is None else pytest.approx(value, rel=1e-9)
        for name, value in kept.metrics.items()
    }
    assert dict(again.notes) == dict(kept.notes)
    assert dict(again.counts) == dict(kept.counts)
    assert again.verdict == kept.verdict
