"""What is to be measured: config files into points, points into launch plans, plans into digests.

    load_configs -> expand -> select -> resolve (with load_recipes) -> digest
                      expand_arms -> select_arms -> allocations -> mark_evals -> row_of

Reads files only through a path -> bytes function; starts nothing, sends nothing.
"""

from typing import TYPE_CHECKING

from inferometer.deferred import by_name
from inferometer.plan.digest import digest
from inferometer.plan.resolve import Explanation, explain, names_at, resolve
from inferometer.plan.select import Bounds, Selection, lowest, select, select_arms

if TYPE_CHECKING:
    from inferometer.plan.budget import Reservation, check_budget, reservations
    from inferometer.plan.bundled import newer_paths, quickstart_paths
    from inferometer.plan.checkall import check_launch, check_points
    from inferometer.plan.clashes import declared_twice
    from inferometer.plan.evals import Allocation, EvalMode, allocations, mark_evals
    from inferometer.plan.expressions import evaluate
    from inferometer.plan.flagcheck import FlagFinding, Severity, check_flags, check_words
    from inferometer.plan.load import Config, Configs, load_configs
    from inferometer.plan.matrix import Arm, expand, expand_arms, hardware_of
    from inferometer.plan.names import scenario_of
    from inferometer.plan.recipes import ListFiles, Recipes, list_files, load_recipes, recipe_roots
    from inferometer.plan.roles import pools_of
    from inferometer.plan.rows import reference_rows, row_of
    from inferometer.plan.source import Document, Read, read_document, read_file
    from inferometer.plan.tables import read_facts
    from inferometer.plan.templates import SITE_PLACEHOLDERS, is_site_placeholder

__all__ = [
    "SITE_PLACEHOLDERS",
    "Allocation",
    "Arm",
    "Bounds",
    "Config",
    "Configs",
    "Document",
    "EvalMode",
    "Explanation",
    "FlagFinding",
    "ListFiles",
    "Read",
    "Recipes",
    "Reservation",
    "Selection",
    "Severity",
    "allocations",
    "check_budget",
    "check_flags",
    "check_launch",
    "check_points",
    "check_words",
    "declared_twice",
    "digest",
    "evaluate",
    "expand",
    "expand_arms",
    "explain",
    "hardware_of",
    "is_site_placeholder",
    "list_files",
    "load_configs",
    "load_recipes",
    "lowest",
    "mark_evals",
    "names_at",
    "newer_paths",
    "pools_of",
    "quickstart_paths",
    "read_document",
    "read_facts",
    "read_file",
    "recipe_roots",
    "reference_rows",
    "reservations",
    "resolve",
    "row_of",
    "scenario_of",
    "select",
    "select_arms",
]

# A bench of one server must not pay for what only reads and checks config files. Names that their
# modules have too cannot wait.
__getattr__ = by_name(
    __name__,
    {
        "budget": "Reservation check_budget reservations",
        "bundled": "newer_paths quickstart_paths",
        "checkall": "check_launch check_points",
        "clashes": "declared_twice",
        "evals": "Allocation EvalMode allocations mark_evals",
        "expressions": "evaluate",
        "flagcheck": "FlagFinding Severity check_flags check_words",
        "load": "Config Configs load_configs",
        "matrix": "Arm expand expand_arms hardware_of",
        "names": "scenario_of",
        "recipes": "ListFiles Recipes list_files load_recipes recipe_roots",
        "roles": "pools_of",
        "rows": "reference_rows row_of",
        "source": "Document Read read_document read_file",
        "tables": "read_facts",
        "templates": "SITE_PLACEHOLDERS is_site_placeholder",
    },
)
