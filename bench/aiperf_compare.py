"""What AIPerf and Inferometer make of the same weka traces, number by number.

AIPerf's side is its own loader, run in its own environment up to where it would write text
(`aiperf_plans.py`): what it plans to send, not what a run sent. Prints JSON: totals of both sides,
each session that differs, and every agent that AIPerf recovered by what it is here.

    python bench/aiperf_compare.py SESSIONS --aiperf-python PYTHON
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from inferometer.core import Session
from inferometer.workload import ReadOptions, prefix_hit, read_corpus

LIMIT_S = 600.0
RECOVERED = ("chain", "aux")
NESTED = ("nested_chain", "nested_aux")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sessions", type=Path)
    parser.add_argument("--aiperf-python", type=Path, required=True)
    asked = parser.parse_args()
    theirs = planned(asked.sessions, asked.aiperf_python)
    ours = read_corpus(asked.sessions, ReadOptions()).sessions
    print(json.dumps(compared(ours, theirs), indent=1))


def planned(sessions: Path, python: Path) -> dict[str, Any]:
    """AIPerf's plans, from its own loader."""
    script = Path(__file__).with_name("aiperf_plans.py")
    command = [str(python), str(script), str(sessions.resolve())]
    done = subprocess.run(command, capture_output=True, timeout=LIMIT_S, check=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def compared(ours: tuple[Session, ...], theirs: dict[str, Any]) -> dict[str, Any]:
    """Both sides' totals, and where they part."""
    plans: dict[str, Any] = theirs["sessions"]
    mine = {session.id: row(session) for session in ours}
    other = {id: plan_row(plan) for id, plan in plans.items()}
    names = sorted(mine.keys() | other.keys())
    differing = {
        id: {"inferometer": mine.get(id), "aiperf": other.get(id)}
        for id in names
        if mine.get(id) != other.get(id)
    }
    blocks = sum(plan["blocks"] for plan in plans.values())
    readings = [kind for session in ours for kind in recovered(session, plans[session.id])]
    return {
        "aiperf": {
            "version": theirs["version"],
            "sessions": len(plans),
            **total(other.values()),
            "prefix_hit_of_blocks": sum(p["hit_blocks"] for p in plans.values()) / blocks,
        },
        "inferometer": {
            "sessions": len(ours),
            **total(mine.values()),
            "prefix_hit_of_blocks": total(mine.values())["hit_blocks"] / blocks,
            "prefix_hit_of_tokens": prefix_hit(ours),
        },
        "aiperf_recovered_are_here": dict(Counter(readings)),
        "differing_sessions": differing,
    }


def row(session: Session) -> dict[str, int]:
    """A session here: hits as AIPerf counts them, each session by itself, in order of turns."""
    seen: set[int] = set()
    hits = 0
    for turn in session.turns:
        known = np.array([int(id) in seen for id in turn.block_ids], np.bool_)
        hits += len(known) if known.all() else int(known.argmin())
        seen.update(turn.block_ids.tolist())
    agents = {turn.agent for turn in session.turns}
    fans = sum("/fan-" in agent for agent in agents)
    return {
        "turns": len(session.turns),
        "root_turns": len(session.root_turns),
        "declared_agents": len(agents) - 1 - fans,
        "recovered_agents": fans,
        "input_tokens": sum(turn.input_tokens for turn in session.turns),
        "hit_blocks": hits,
    }


def plan_row(plan: dict[str, Any]) -> dict[str, int]:
    """The same of a session of AIPerf."""
    agents = plan["agents"]
    return {
        "turns": sum(agent["turns"] for agent in agents),
        "root_turns": sum(agent["turns"] for agent in agents if agent["kind"] == "root"),
        "declared_agents": sum(agent["kind"] == "subagent" for agent in agents),
        "recovered_agents": sum(agent["kind"] in (*RECOVERED, *NESTED) for agent in agents),
        "input_tokens": plan["input_tokens"],
        "hit_blocks": plan["hit_blocks"],
    }


def total(rows: Any) -> dict[str, int]:
    """Sums of all columns."""
    sums: Counter[str] = Counter()
    for each in rows:
        sums.update(each)
    return dict(sums)


def recovered(session: Session, plan: dict[str, Any]) -> list[str]:
    """What each agent is here that AIPerf recovered at the top of a session."""
    agent_of: dict[tuple[int, ...], str] = {}
    turns_of: Counter[str] = Counter()
    for turn in session.turns:
        last = int(turn.block_ids[-1]) if len(turn.block_ids) else -1
        agent_of[(turn.input_tokens, turn.output_tokens, last)] = turn.agent
        turns_of[turn.agent] += 1
    found = []
    for agent in plan["agents"]:
        if agent["kind"] in (*RECOVERED, *NESTED):
            here = {agent_of.get(tuple(key)) for key in agent["keys"]}
            (name,) = here if len(here) == 1 else (None,)
            if name is None:
                found.append("split over several agents")
            elif "/fan-" in name:
                whole = turns_of[name] == agent["turns"]
                found.append("the same agent" if whole else "a part of a recovered agent")
            else:
                beside = "beside another" if overlaps(plan, agent) else "never beside another"
                found.append(f"its scope's own agent with another context, {beside}")
    return found


def overlaps(plan: dict[str, Any], agent: dict[str, Any]) -> bool:
    """Whether a request of it and one of another agent at the top are open together for a second.

    Times are recorded to a second.
    """
    return any(
        min(end, own_end) - max(start, own_start) >= 1.0
        for other in plan["agents"]
        if other is not agent and other["kind"] in ("root", *RECOVERED)
        for start, end in other["spans"]
        for own_start, own_end in agent["spans"]
    )


if __name__ == "__main__":
    main()
