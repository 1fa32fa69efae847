"""What AIPerf's own loader makes of weka traces, before it writes a prompt. Run by its Python.

Reads the files and plans the conversations with AIPerf's code, as its dataset manager does, and
stops where text would be made: no tokenizer is needed. Prints one JSON object. Known to fit 0.13.

    AIPERF_PYTHON bench/aiperf_plans.py SESSIONS
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from importlib.metadata import version
from typing import Any

from aiperf.dataset.loader.weka_trace import (  # type: ignore[import-not-found]
    WekaTraceLoader,
    _child_plans_for_active_subagents,
)


def conversations(plans: Any, trace: str) -> list[tuple[str, str, list[Any]]]:
    """(name, kind, requests) of every conversation of a trace that would be sent."""
    parent = next(plan for plan in plans.parent_plans if plan.trace_id == trace)
    found = [(trace, "root", [request for _, request in parent.normals])]
    for plan in plans.flat_plans:
        if plan.parent_trace_id == trace:
            kind = "aux" if plan.is_aux else "chain"
            found.append((plan.session_id, kind, [request for _, request in plan.requests]))
    for plan in _child_plans_for_active_subagents(parent, plans.child_plans):
        nested = "nested_aux" if plan.is_aux else "nested_chain"
        kind = nested if plan.chain_index else "subagent"
        found.append((plan.session_id, kind, list(plan.requests)))
    return found


def main() -> None:
    began = time.perf_counter()
    with contextlib.redirect_stdout(sys.stderr):
        loader = WekaTraceLoader(filename=sys.argv[1])
        data = loader.load_dataset()
        plans = loader._build_reconstruction_plans(data)
        blocks = loader._build_shared_metric_values(
            plans.parent_plans, plans.child_plans, plans.flat_plans
        )
    sessions = {}
    for trace in data:
        found = conversations(plans, trace)
        sessions[trace] = {
            "agents": [
                {
                    "name": name.removeprefix(trace).lstrip(":") or "root",
                    "kind": kind,
                    "turns": len(requests),
                    "spans": [[r.t, r.t + (r.api_time or 0.0)] for r in requests],
                    "keys": [
                        [r.input_length, max(1, r.output_length), r.hash_ids[-1]] for r in requests
                    ],
                }
                for name, kind, requests in found
            ],
            "input_tokens": sum(r.input_length for _, _, own in found for r in own),
            "output_tokens": sum(r.output_length for _, _, own in found for r in own),
            "hit_blocks": sum(hits for hits, _ in blocks[trace].values()),
            "blocks": sum(total for _, total in blocks[trace].values()),
        }
    told = {"version": version("aiperf"), "seconds": time.perf_counter() - began}
    json.dump({**told, "sessions": sessions}, sys.stdout)


if __name__ == "__main__":
    main()
