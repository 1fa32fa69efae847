"""Allocations as the rows that InferenceX's own generator prints, field for field.

One way only, and only its shape: what a row leaves out is in the points.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from inferometer.core import AgenticCoding, FixedSeqLen, MultiNode, Parallelism, Point, Pool
from inferometer.plan.evals import Allocation, EvalMode, allocations, mark_evals
from inferometer.plan.matrix import Arm

Row = dict[str, Any]
AGENTIC_SECONDS = 3600
"""Duration of every agentic row; no config field sets it."""
_LENGTHS = {FixedSeqLen(1024, 1024): "1k1k", FixedSeqLen(8192, 1024): "8k1k"}


def reference_rows(arms: Iterable[Arm], evals: EvalMode = "marked") -> list[Row]:
    """The rows of a full sweep, in order, keys sorted."""
    return [row_of(each, evals) for each in mark_evals(allocations(arms), evals)]


def row_of(allocation: Allocation, evals: EvalMode) -> Row:
    """One allocation as a row."""
    point = allocation.lead
    concs = [each.conc for each in allocation.points]
    row: Row = {
        "image": point.image,
        "model": point.model,
        "model-prefix": point.model_prefix,
        "precision": point.precision,
        "framework": point.framework,
        "runner": point.runner,
        "spec-decoding": point.spec_decoding,
        "exp-name": exp_name(point),
    }
    if point.multi_node is None:
        row |= _spread(point.parallelism) | {"conc": point.conc}
    else:
        row |= _roles(point.multi_node) | {"conc": concs}
    row |= _scenario(point) | _marks(allocation, evals)
    if point.router is not None:
        row["router"] = {"name": point.router.name, "version": point.router.version}
    return dict(sorted(row.items()))


def exp_name(point: Point) -> str:
    """InferenceX's name of a point. It omits much, so that different points share one."""
    if isinstance(point.scenario, FixedSeqLen):
        lengths = point.scenario
        label = _LENGTHS.get(lengths, f"{lengths.isl}_{lengths.osl}")
        return f"{point.model_prefix}_{label}"
    offload = point.kv_offload
    if point.multi_node is None:
        kept = "kvnone" if offload.mode == "none" else f"kv{offload.mode}-{offload.backend}"
        name = f"{point.model_prefix}_tp{point.parallelism.tp}_conc{point.conc}_{kept}"
        spec = point.spec_decoding
        return name if spec == "none" else f"{name}_spec-{spec}"
    roles = (("p", point.multi_node.prefill), ("d", point.multi_node.decode))
    tags = "_".join(f"{role}{_tag(pool)}" for role, pool in roles)
    name = f"{point.model_prefix}_{tags}_conc{point.conc}"
    return name if offload.mode == "none" else f"{name}_kv{offload.mode}-{offload.backend}"


def _tag(pool: Pool) -> str:
    spread = pool.parallelism
    ep = f"ep{spread.ep}" if spread.ep != 1 else ""
    return f"{pool.workers}x{spread.tp}{ep}{'dpa' if spread.dp_attn else ''}"


def _spread(parallelism: Parallelism) -> Row:
    return {
        "tp": parallelism.tp,
        "pp": parallelism.pp,
        "dcp-size": parallelism.dcp,
        "pcp-size": parallelism.pcp,
        "ep": parallelism.ep,
        "dp-attn": parallelism.dp_attn,
    }


def _roles(nodes: MultiNode) -> Row:
    row: Row = {
        "prefill": _worker(nodes.prefill),
        "decode": _worker(nodes.decode),
        "disagg": nodes.disagg,
    }
    return row if nodes.p2p_transfer is None else row | {"kv-p2p-transfer": nodes.p2p_transfer}


def _worker(pool: Pool) -> Row:
    row: Row = {"num-worker": pool.workers, **_spread(pool.parallelism)}
    if pool.hardware is not None:
        row["hardware"] = pool.hardware
    if pool.settings:
        row["additional-settings"] = [f"{key}={value}" for key, value in pool.settings]
    return dict(sorted(row.items()))


def _scenario(point: Point) -> Row:
    if isinstance(point.scenario, FixedSeqLen):
        row: Row = {"isl": point.scenario.isl, "osl": point.scenario.osl}
        row["max-model-len"] = point.max_model_len
        return row if point.multi_node else row | {"disagg": False}
    offload = point.kv_offload
    row = {
        "scenario-type": "agentic-coding",
        "duration": AGENTIC_SECONDS,
        "kv-offloading": offload.mode,
        "total-cpu-dram-gb": offload.dram_gb,
    }
    if offload.backend is not None:
        version = {} if offload.version is None else {"version": offload.version}
        row["kv-offload-backend"] = {"name": offload.backend, **version}
    return row


def _marks(allocation: Allocation, evals: EvalMode) -> Row:
    row: Row = {}
    agentic = isinstance(allocation.lead.scenario, AgenticCoding)
    if allocation.evaluated is not None or not agentic:
        row["run-eval"] = bool(allocation.evaluated)
    if allocation.eval_conc is not None:
        row["eval-conc"] = allocation.eval_conc
    if allocation.all_concs:
        row["eval-all-concs"] = True
    if evals in ("only", "all"):
        row["eval-only"] = True
    return row
