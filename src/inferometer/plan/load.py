"""Master files and a runner file into checked configs, with all faults of all files at once.

Adds to the schema the rules that need more than one file: a key given in two files, host memory of
a runner for KV offload. A runner label that the runner file lacks is a warning: such files run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from inferometer.errors import InputError, Problem, nearest
from inferometer.plan.fields import describe, key_faults, validate
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
class Skipped:
    """A config that loads and is not expanded, and why."""

    config: str
    reason: str


@dataclass(frozen=True, slots=True)
class Configs:
    """Everything declared, in the order written."""

    configs: tuple[Config, ...]
    runners: Runners
    warnings: tuple[Problem, ...]

    @property
    def single_node(self) -> Iterator[tuple[str, SingleNodeConfig]]:
        """(key, entry) of the configs that `expand` turns into points."""
        for config in self.configs:
            if isinstance(config.entry, SingleNodeConfig):
                yield config.key, config.entry

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """The configs that `expand` leaves out."""
        reason = "multi-node deployments are not expanded yet"
        found = [c.key for c in self.configs if isinstance(c.entry, MultiNodeConfig)]
        return tuple(Skipped(key, reason) for key in found)


def load_configs(paths: Sequence[str], runners: str, read: Read = read_file) -> Configs:
    """Read and check master files and a runner file. InputError holds every problem of them all."""
    problems: list[Problem] = []
    machines = _load_runners(runners, read, problems)
    configs: dict[str, Config] = {}
    warnings: list[Problem] = []
    for path in paths:
        document = _open(path, read, problems)
        for key in document.data if document else ():
            assert document is not None
            config = _load_config(document, key, configs, problems)
            if config is None:
                continue
            configs[key] = config
            if machines is not None:
                problems += _dram_faults(document, config, machines)
                warnings += _label_warnings(document, config, machines, runners)
    if problems or machines is None:
        raise InputError(*problems)
    return Configs(tuple(configs.values()), machines, tuple(warnings))


def _open(path: str, read: Read, problems: list[Problem]) -> Document | None:
    """One file; its faults go to `problems`, so that the other files are checked too."""
    try:
        document = read_document(path, read, "mapping")
    except InputError as error:
        problems += error.problems
        return None
    problems += document.problems
    return document


def _load_runners(path: str, read: Read, problems: list[Problem]) -> Runners | None:
    document = _open(path, read, problems)
    if document is None:
        return None
    runners, faults = validate(Runners, document, ())
    problems += faults
    return runners


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


def _label_warnings(
    document: Document, config: Config, machines: Runners, runners: str
) -> Iterator[Problem]:
    label = config.entry.runner
    if label not in machines.labels:
        hint = nearest(label, machines.labels)
        message = f"runner label {label!r} is not defined in {runners}{hint}"
        yield document.problem((config.key, "runner"), message)


def _dram_faults(document: Document, config: Config, machines: Runners) -> Iterator[Problem]:
    """A single-node arm that offloads KV to host memory needs the node's size and a fair share."""
    if not isinstance(config.entry, SingleNodeConfig):
        return
    node = machines.hardware.get(config.entry.runner)
    for i, scenario in enumerate(config.entry.scenarios.agentic_coding or ()):
        for j, arm in enumerate(scenario.search_space):
            if arm.kv_offloading == "none":
                continue
            where = (config.key, "scenarios", "agentic-coding", i, "search-space", j)
            gpus = arm.tp * arm.pp * arm.pcp_size
            if node is None:
                message = f"no hardware entry for runner {config.entry.runner!r}, which says the"
                yield document.problem(where, f"{message} host memory to share")
            elif node.gpus_per_node % gpus:
                message = f"{gpus} GPUs (tp * pp * pcp-size) do not divide a node of"
                yield document.problem(where, f"{message} {node.gpus_per_node}")
