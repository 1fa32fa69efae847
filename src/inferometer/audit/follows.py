"""What a derived value follows: the names of its expression that have another value than before,
and the parts of it that look into a table of the catalog which the other revision has otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator

from inferometer.audit.flatten import text_of
from inferometer.audit.revision import State
from inferometer.errors import InputError
from inferometer.plan import evaluate, names_at
from inferometer.plan.expressions import FACTS, Names, filled_in, lookups_in, names_in
from inferometer.plan.names import point_names
from inferometer.plan.templates import expressions


def followed(expression: str, launch: str, base: State, head: State) -> Iterator[str]:
    """`seqs 2 -> 128`, of the templates of a value as written. `launch`: the name of that which has
    the value, where the point has several.
    """
    before, after = _names(base, launch), _names(head, launch)
    sources = list(expressions(expression))
    for name in dict.fromkeys(n for source in sources for n in names_in(source)):
        old, new = text_of(before.get(name)), text_of(after.get(name))
        if old != new:
            yield f"{name} {old} -> {new}"
    if before.get(FACTS) is after.get(FACTS):
        return
    for part in dict.fromkeys(part for source in sources for part in lookups_in(source)):
        old, new = (_looked_up(part, names) for names in (before, after))
        if old != new:
            yield f"{filled_in(part, after)} {old} -> {new}"


def _looked_up(part: str, names: Names) -> str | None:
    try:
        return text_of(evaluate(part, names))
    except InputError:
        # A part that was not taken: the table need not have it.
        return None


def _names(state: State, launch: str) -> Names:
    """What expressions may name at a point, with what layers agree on for it, or for one launch."""
    if state.recipes is None:
        return point_names(state.point)
    found = names_at(state.point, state.recipes)
    return found.get(launch, found[""])
