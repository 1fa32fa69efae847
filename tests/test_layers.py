"""The house's one rule: who may import whom. Read from the source, so that nothing runs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import inferometer

ROOT = Path(inferometer.__file__).parent
LAYERS: tuple[tuple[str, ...], ...] = (
    ("core", "deferred", "errors", "clock", "metrics", "catalog"),
    ("plan", "workload", "load", "engine", "observe", "evals"),
    ("store",),
    ("analyze", "audit"),
    ("report", "run"),
    ("cli",),
)
RANK = {unit: rank for rank, layer in enumerate(LAYERS) for unit in layer}
SIBLINGS = set(LAYERS[1])


def unit_of(path: Path) -> str:
    """`core` for src/inferometer/core/point.py, `errors` for src/inferometer/errors.py."""
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def imports(tree: ast.AST) -> list[tuple[int, str]]:
    """(line, unit) of every import of ours."""
    found = []
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            module = node.module or ""
            names = [module] if module != "inferometer" else []
            names += [f"{module}.{a.name}" for a in node.names] if module == "inferometer" else []
        ours = [name for name in names if name.startswith("inferometer.")]
        found += [(getattr(node, "lineno", 0), name.split(".")[1]) for name in ours]
    return found


def violations(source: str, unit: str) -> list[str]:
    """Every import in `source` (a module of `unit`) that the layers forbid."""
    wrong = []
    for line, target in imports(ast.parse(source)):
        if target not in RANK or target == unit:
            continue
        if unit == "core":
            wrong.append(f"line {line}: core imports nothing of ours, and imports {target}")
        elif RANK[target] > RANK[unit]:
            wrong.append(f"line {line}: {unit} imports {target}, a layer above")
        elif {unit, target} <= SIBLINGS:
            wrong.append(f"line {line}: {unit} imports its sibling {target}")
    return wrong


def hidden_imports(source: str) -> list[str]:
    """Imports inside a function: they hide a cycle, or a cost."""
    return [
        f"line {inner.lineno}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    ]


MODULES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    unit = unit_of(path)
    assert unit in RANK or path.name in {"__init__.py", "__main__.py"}, f"{unit} is in no layer"
    if unit in RANK:
        assert violations(path.read_text(), unit) == []


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_import_hides_in_a_function(path: Path) -> None:
    assert hidden_imports(path.read_text()) == []


def test_the_check_can_fail() -> None:
    assert violations("from inferometer.run import sweep", "plan")
    assert violations("from inferometer.load import lanes", "engine")
    assert violations("from inferometer import errors", "core")
    assert not violations("from inferometer.plan import expand", "run")
    assert hidden_imports("def f():\n    import os\n")
