"""Master files and a runner file into checked configs, with all faults of all files at once.

Adds to the schema the rules that need more than one file: a key given in two files, host memory of
a runner for KV offload. What InferenceX accepts and nobody means is a warning: such files run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inferometer.errors import InputError, Problem
from inferometer.plan.fields import describe, key_faults, validate
from inferometer.plan.findings import Written, faults_of, findings_of
from inferometer.plan.schema import MultiNodeConfig, Runners, SingleNodeConfig
from inferometer.plan.source import Document, Read, read_document, read_file


@dataclass(frozen=True, slots=True)
class Config:
    """One config key, where it is written, and what it says."""

    key: str
    file: str
    line: int
    entry: SingleNodeConfig | MultiNodeConfig


@dataclass(frozen=True, slots=True)
class Configs:
    """Everything declared, in the order written."""

    configs: tuple[Config, ...]
    runners: Runners
    warnings: tuple[Problem, ...]


def load_configs(
    paths: Sequence[str], runners: str, read: Read = read_file, strict: bool = False
) -> Configs:
    """Read and check master files and a runner file. InputError holds every problem of them all,
    and where `strict` every warning too.
    """
    problems: list[Problem] = []
    warnings: list[Problem] = []
    machines = _load_runners(runners, read, problems, warnings)
    configs: dict[str, Config] = {}
    for path in paths:
        document = _open(path, read, problems, warnings)
        if document and "labels" in document.data and not _holds_configs(document):
            problems.append(Problem("is a runner file: name it with --runners", path))
            continue
        for key in document.data if document else ():
            assert document is not None
            config = _load_config(document, key, configs, problems)
            if config is None:
                continue
            configs[key] = config
            if machines is not None:
                written = Written(document, key, config.entry, machines, runners)
                problems += faults_of(written)
                warnings += findings_of(written)
    if problems or machines is None:
        raise InputError(*problems, *(warnings if strict else ()))
    return Configs(tuple(configs.values()), machines, tuple(warnings))


def _open(
    path: str, read: Read, problems: list[Problem], warnings: list[Problem]
) -> Document | None:
    """One file; its faults go to `problems`, so that the other files are checked too.

    A key given twice is a warning, and the last counts: so InferenceX reads its files.
    """
    try:
        document = read_document(path, read, "mapping", "last")
    except InputError as error:
        problems += error.problems
        return None
    problems += document.problems
    warnings += document.warnings
    return document


def _load_runners(
    path: str, read: Read, problems: list[Problem], warnings: list[Problem]
) -> Runners | None:
    document = _open(path, read, problems, warnings)
    if document is None:
        return None
    if _holds_configs(document):
        problems.append(Problem("is a master file, not a runner file", path))
        return None
    runners, faults = validate(Runners, document, ())
    problems += faults
    return runners


def _holds_configs(document: Document) -> bool:
    """Whether it is a master file, whatever is wrong with it: entries that say what is measured."""
    entries = [entry for entry in document.data.values() if isinstance(entry, dict)]
    return any("scenarios" in entry and "framework" in entry for entry in entries)


def _load_config(
    document: Document, key: str, known: Mapping[str, Config], problems: list[Problem]
) -> Config | None:
    """One entry, or None where it has faults."""
    where, entry = (key,), document.data[key]
    if faulty := key_faults(key):
        problems += [Problem(text, document.file, document.line(where)) for text in faulty]
        return None
    if "*" in key:
        problems.append(document.problem(where, "a config key cannot contain *"))
    if key in known:
        first = known[key]
        message = f"config key is also in {first.file}:{first.line}"
        problems.append(document.problem(where, message))
        return None
    if not isinstance(entry, dict):
        message = f"expected a mapping, got {describe(entry)}"
        problems.append(document.problem(where, message))
        return None
    checked: SingleNodeConfig | MultiNodeConfig | None
    if entry.get("multinode") is True:
        checked, faults = validate(MultiNodeConfig, document, where)
    else:
        checked, faults = validate(SingleNodeConfig, document, where)
    problems += faults
    return Config(key, document.file, document.line(where), checked) if checked else None
