"""What is to be measured: config files into points, points into launch plans, plans into digests.

    load_configs -> expand -> select -> resolve (with load_recipes) -> digest

Reads files only through a path -> bytes function; starts nothing, sends nothing.
"""

from inferometer.plan.bundled import quickstart_paths
from inferometer.plan.digest import digest
from inferometer.plan.expressions import evaluate
from inferometer.plan.load import Config, Configs, Skipped, load_configs
from inferometer.plan.matrix import expand, hardware_of
from inferometer.plan.names import scenario_of
from inferometer.plan.recipes import ListFiles, Recipes, list_files, load_recipes, recipe_roots
from inferometer.plan.resolve import Explanation, explain, resolve
from inferometer.plan.select import Selection, select
from inferometer.plan.source import Document, Read, read_document, read_file
from inferometer.plan.templates import SITE_PLACEHOLDERS

__all__ = [
    "SITE_PLACEHOLDERS",
    "Config",
    "Configs",
    "Document",
    "Explanation",
    "ListFiles",
    "Read",
    "Recipes",
    "Selection",
    "Skipped",
    "digest",
    "evaluate",
    "expand",
    "explain",
    "hardware_of",
    "list_files",
    "load_configs",
    "load_recipes",
    "quickstart_paths",
    "read_document",
    "read_file",
    "recipe_roots",
    "resolve",
    "scenario_of",
    "select",
]
