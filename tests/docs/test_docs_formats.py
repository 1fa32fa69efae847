"""The tables of docs/formats.md are the columns, fields and names that the code has."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from docs_pages import DOCS, ROOT, code_spans, first_names, rows, section

from inferometer.audit.entries import _Change, _Entry
from inferometer.audit.policy import Check, _packaged
from inferometer.catalog import SERIES
from inferometer.core import (
    ClientReport,
    ClientSettings,
    DeploymentSettings,
    EngineTotals,
    ExternalFile,
    LaunchPlan,
    MetricsReport,
    MultiNode,
    Point,
    Pool,
    Reason,
    Result,
    RoleLaunch,
    SideProcess,
    Verdict,
    Window,
    WorkloadSettings,
)
from inferometer.observe.engine_metrics import SCRAPE_S
from inferometer.observe.gpus import SERIES as GPU_SERIES
from inferometer.plan.expressions import FUNCTIONS
from inferometer.plan.layers import _Rule
from inferometer.plan.names import POINT_NAMES
from inferometer.plan.schema import (
    MultiNodeAgenticEntry,
    MultiNodeConfig,
    MultiNodeEntry,
    SingleNodeAgenticEntry,
    SingleNodeConfig,
    SingleNodeEntry,
    Worker,
)
from inferometer.plan.templates import SITE_PLACEHOLDERS
from inferometer.store import FORMAT, ClientFile, LaunchFile, Manifest, Versions
from inferometer.store.records import RECORD_COLUMNS, SAMPLE_COLUMNS
from inferometer.workload import READERS, ReadOptions, ReadReport
from inferometer.workload.made import KINDS
from inferometer.workload.sessionrow import SESSION, TURN
from inferometer.workload.weka_schema import REQUEST, SUBAGENT, TRACE

PAGE = (DOCS / "formats.md").read_text(encoding="utf-8")
SPANS = set(code_spans(PAGE))
TABLES = {
    "run.json: Manifest": Manifest,
    "launch.json: LaunchFile": LaunchFile,
    "Point": Point,
    "LaunchPlan": LaunchPlan,
    "RoleLaunch": RoleLaunch,
    "Additional settings": DeploymentSettings,
    "client.json: ClientFile": ClientFile,
    "ClientReport": ClientReport,
    "MetricsReport": MetricsReport,
    "EngineTotals": EngineTotals,
    "result.json: Result": Result,
    "Window": Window,
    "verdict.json: Verdict": Verdict,
    "Client settings": ClientSettings,
    "Workload settings": WorkloadSettings,
}


def columns(page: str, heading: str) -> dict[str, str]:
    """Name to type of a table of columns; every column says when it is null."""
    found = rows(section(page, heading))
    assert all(len(row) == 5 and row[4] for row in found)
    return {row[0].strip("`"): row[1] for row in found}


def names(kind: type) -> list[str]:
    """The fields of a dataclass."""
    return [field.name for field in fields(kind)]


@pytest.mark.parametrize(
    ("heading", "expected"),
    [("records.parquet", RECORD_COLUMNS), ("samples.parquet", SAMPLE_COLUMNS)],
)
def test_columns_are_those_of_the_store(heading: str, expected: dict[str, str]) -> None:
    assert list(columns(PAGE, heading).items()) == list(expected.items())


def test_a_column_that_differs_is_seen() -> None:
    changed = PAGE.replace("| `lane` | INTEGER |", "| `lane` | BIGINT |")
    assert columns(changed, "records.parquet") != RECORD_COLUMNS
    with pytest.raises(AssertionError):
        columns(PAGE.replace("| nanoseconds |", "|").replace("| never |", "| |"), "samples.parquet")


@pytest.mark.parametrize("heading", TABLES)
def test_fields_are_those_of_the_files(heading: str) -> None:
    assert first_names(section(PAGE, heading)) == names(TABLES[heading])


def test_a_field_that_is_gone_is_seen() -> None:
    changed = PAGE.replace("| `measured_at` |", "| `taken_at` |")
    assert first_names(section(changed, "result.json: Result")) != names(Result)


def test_fields_inside_fields_are_named() -> None:
    inside = (Versions, Reason, MultiNode, Pool, SideProcess, ExternalFile)
    assert {name for kind in inside for name in names(kind)} <= SPANS


def test_the_format_version_is_stated() -> None:
    assert f"now {FORMAT}." in section(PAGE, "Format version")


def test_the_language_of_expressions_is_listed() -> None:
    text = section(PAGE, "Expressions")
    listed = {name.partition("(")[0] for name in first_names(text)}
    assert listed == set(FUNCTIONS)
    spans = set(code_spans(text))
    assert spans >= POINT_NAMES
    assert {f"{{{name}}}" for name in SITE_PLACEHOLDERS} <= spans


def test_every_key_of_a_rule_is_listed() -> None:
    assert first_names(section(PAGE, "Recipe layers")) == list(_Rule.model_fields)


def test_every_field_of_a_master_file_is_named() -> None:
    spans = set(code_spans(section(PAGE, "Master files")))
    models = (
        *(SingleNodeConfig, SingleNodeEntry, SingleNodeAgenticEntry),
        *(MultiNodeConfig, MultiNodeEntry, MultiNodeAgenticEntry, Worker),
    )
    for model in models:
        aliases = {field.alias or name for name, field in model.model_fields.items()}
        assert aliases <= spans


def test_every_field_of_a_weka_trace_is_listed() -> None:
    listed: dict[str, set[str]] = {"trace": set(), "request": set(), "subagent": set()}
    for level, cell, _ in rows(section(PAGE, "Weka traces")):
        listed[level] |= set(code_spans(cell))
    for level, known in (("trace", TRACE), ("request", REQUEST), ("subagent", SUBAGENT)):
        assert listed[level] == {field.name for field in known}


def test_every_field_of_our_own_sessions_is_listed() -> None:
    listed: dict[str, set[str]] = {"session": set(), "turn": set()}
    for level, cell, _ in rows(section(PAGE, "inferometer-sessions")):
        listed[level] |= set(code_spans(cell))
    assert listed == {"session": set(SESSION), "turn": set(TURN)}


def test_every_format_and_option_of_a_path_is_named() -> None:
    text = section(PAGE, "Paths")
    assert set(READERS) <= set(code_spans(text))
    assert first_names(text) == names(ReadOptions)


def test_every_key_of_a_made_workload_is_listed() -> None:
    listed: dict[str, list[str]] = {}
    for row in rows(section(PAGE, "Made workloads")):
        if len(row) == 4:
            listed.setdefault(row[0].strip("`"), []).extend(code_spans(row[1]))
    assert listed == {kind: list(keys) for kind, keys in KINDS.items()}


def test_every_count_of_the_reader_is_listed() -> None:
    assert first_names(section(PAGE, "What is inferred")) == names(ReadReport)


def test_every_series_that_is_kept_is_named() -> None:
    named = set(code_spans(section(PAGE, "Series")))
    engine = {f"engine.{name}" for name in SERIES} | {SCRAPE_S}
    gpu = {f"gpu.{name}" for name in GPU_SERIES}
    assert engine | gpu <= named
    others = {"engine.queue_time_s_sum", "engine.resident_bytes", "engine.pinned_bytes"}
    listed = {name for name in named if name.startswith(("engine.", "gpu."))}
    assert listed == engine | gpu | others | {"gpu.other_processes"}


def test_every_field_of_a_change_entry_is_listed() -> None:
    text = section(PAGE, "Change entries")
    listed = first_names(text)
    fields_of = [f.alias or n for m in (_Entry, _Change) for n, f in m.model_fields.items()]
    assert set(listed) == set(fields_of)


def test_every_rule_and_field_of_the_audit_is_listed() -> None:
    page = (DOCS / "audit.md").read_text(encoding="utf-8")
    assert first_names(section(page, "Policy"))[: len(Check.model_fields)] == list(
        Check.model_fields
    )
    checks = set(first_names(section(page, "Policy"))[len(Check.model_fields) :])
    assert checks == {check.name for check in _packaged()}
    rules = set(first_names(section(page, "Rules")))
    sources = "".join(path.read_text() for path in (ROOT / "src/inferometer/audit").glob("*.py"))
    told = set(re.findall(r'"(?:error|note)",\s+"([a-z-]+)"', sources))
    notes = {"taken", "declared", "code", "catalog", "policy", "unplaced"}
    assert told - notes - {"warning", "off"} <= rules
    assert "uncovered" in told
