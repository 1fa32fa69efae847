"""What a config file may say and hardly means: warnings, which a strict reader takes as errors.

InferenceX accepts all of it. `faults_of` has the few rules that nothing can be planned without.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inferometer.core import TRANSFERS, DeploymentSettings
from inferometer.errors import Problem, nearest
from inferometer.plan.additional import read_additional
from inferometer.plan.schema import (
    Agentic,
    MultiNodeAgenticEntry,
    MultiNodeConfig,
    MultiNodeEntry,
    Runners,
    SingleNodeAgenticEntry,
    SingleNodeConfig,
    SingleNodeEntry,
    Worker,
)
from inferometer.plan.source import DataPath, Document

PLACEHOLDER = re.compile(r"TBD|TODO|FIXME|XXX|PLACEHOLDER|CHANGE.?ME", re.IGNORECASE)
Entry = SingleNodeEntry | MultiNodeEntry
AgenticScenario = Agentic[SingleNodeAgenticEntry] | Agentic[MultiNodeAgenticEntry]
MOVING_TAGS = ("latest", "nightly", "main")


@dataclass(frozen=True, slots=True)
class Written:
    """One config entry with the document it stands in, and the runner file beside it."""

    document: Document
    key: str
    entry: SingleNodeConfig | MultiNodeConfig
    machines: Runners
    runners_file: str

    def problem(self, path: DataPath, message: str) -> Problem:
        """A fault of the value at `path` below the entry."""
        return self.document.problem((self.key, *path), message)


@dataclass(frozen=True, slots=True)
class _Role:
    """The workers of one role of an arm: `path` below the arm, GPUs of a worker and of all."""

    path: DataPath
    gpus: int
    pool: int
    ep: int
    several: bool
    """A worker may span nodes."""

    def misfit(self, node: int) -> str | None:
        """Why a worker does not sit on nodes of so many GPUs, or None."""
        what = f"{self.gpus} GPUs (tp * pp * pcp-size)"
        if self.gpus > node and not self.several:
            return f"{what} are more than a node of {node} has"
        if self.gpus > node and self.gpus % node:
            return f"{what} are no multiple of a node of {node}"
        if self.gpus < node and node % self.gpus:
            return f"{what} do not divide a node of {node}"
        return None

    def spread_fault(self) -> str | None:
        """Why the experts do not lie on the GPUs of the role, or None."""
        if self.ep > self.pool and self.several:
            message = f"{self.ep} ranks on {self.pool} GPUs (workers * tp * pp * pcp-size)"
            return f"{message}: counted as {self.ep} GPUs a worker, one a rank"
        if self.ep > self.pool:
            message = f"{self.ep} ranks on {self.pool} GPUs (tp * pp * pcp-size)"
            return f"{message}: a rate a GPU would be divided by too few"
        return f"{self.ep} does not divide the {self.pool} GPUs" if self.pool % self.ep else None


def faults_of(written: Written) -> Iterator[Problem]:
    """Arms that offload KV to host memory without a node whose memory can be shared out."""
    node = written.machines.hardware.get(written.entry.runner)
    for path, arm in written.entry.scenarios.arms():
        if not _offloads(arm):
            continue
        if node is None:
            hint = nearest(written.entry.runner, written.machines.hardware)
            message = f"no hardware entry for runner {written.entry.runner!r}, which says the"
            yield written.problem(path, f"{message} host memory to share{hint}")
        elif (fault := _unshared(arm, node.gpus_per_node)) is not None:
            yield written.problem((*path, *_roles(arm)[0].path), fault)


def findings_of(written: Written) -> Iterator[Problem]:
    """All that is odd about one entry, in the order of its fields."""
    yield from _image(written)
    yield from _label(written)
    yield from _ladders(written)
    yield from _spreads(written)
    yield from _idle_share(written)
    if isinstance(written.entry, MultiNodeConfig):
        yield from _transfers(written, written.entry)
        yield from _settings(written, written.entry)


def _transfers(written: Written, entry: MultiNodeConfig) -> Iterator[Problem]:
    named: list[tuple[DataPath, str | None]] = [(("kv-p2p-transfer",), entry.kv_p2p_transfer)]
    for path, arm in entry.scenarios.arms():
        named.append(((*path, "kv-p2p-transfer"), arm.kv_p2p_transfer))
    for path, name in named:
        if name is not None and name not in TRANSFERS:
            hint = nearest(name, TRANSFERS) or f"; known: {', '.join(TRANSFERS)}"
            yield written.problem(path, f"{name!r} is no way of transfer known here{hint}")


def _settings(written: Written, entry: MultiNodeConfig) -> Iterator[Problem]:
    """What of `additional-settings` cannot be read, or says another thing than the entry."""
    for path, arm in entry.scenarios.arms():
        places: list[DataPath] = []
        pairs = []
        for role, worker in (("prefill", arm.prefill), ("decode", arm.decode)):
            for index, text in enumerate(worker.additional_settings):
                places.append((*path, role, "additional-settings", index))
                pairs.append((text.partition("=")[0], text.partition("=")[2]))
        read = read_additional(pairs)
        for number, message in read.faults:
            yield written.problem(places[number], message)
        for message in _contradictions(arm, read.settings):
            yield written.problem(path, message)


def _contradictions(arm: MultiNodeEntry, settings: DeploymentSettings) -> Iterator[str]:
    told, workers = settings.prefill_workers, arm.prefill.num_worker
    if told is not None and told != workers:
        yield f"PREFILL_WORKERS is {told}, num-worker of prefill is {workers}"
    drafts = settings.decode_mtp_size
    if drafts is not None and (drafts > 0) != (arm.spec_decoding != "none"):
        yield f"DECODE_MTP_SIZE is {drafts}, spec-decoding is {arm.spec_decoding}"
    length = settings.synthetic_acceptance_length
    if length is not None and arm.spec_decoding == "none":
        yield "SYNTHETIC_ACCEPTANCE_LENGTH does nothing: spec-decoding is none"


def _image(written: Written) -> Iterator[Problem]:
    image = written.entry.image
    name, at, _ = image.rpartition("/")[2].partition("@")
    tag = name.partition(":")[2]
    if PLACEHOLDER.search(tag):
        yield written.problem(("image",), f"the tag {tag!r} is a placeholder")
    elif at:
        return
    elif not tag:
        yield written.problem(("image",), f"{image!r} has no tag: it is another image tomorrow")
    elif tag in MOVING_TAGS:
        yield written.problem(("image",), f"the tag {tag!r} is another image tomorrow")


def _label(written: Written) -> Iterator[Problem]:
    label, known = written.entry.runner, written.machines.labels
    if label not in known:
        hint = nearest(label, known)
        message = f"runner label {label!r} is not defined in {written.runners_file}{hint}"
        yield written.problem(("runner",), message)


def _ladders(written: Written) -> Iterator[Problem]:
    for path, arms in written.entry.scenarios.spaces():
        if not arms:
            yield written.problem(path, "is empty: nothing is measured")
        for index, arm in enumerate(arms):
            seen: set[int] = set()
            for place, conc in enumerate(arm.conc_list or ()):
                if conc in seen:
                    message = f"{conc} is listed twice"
                    yield written.problem((*path, index, "conc-list", place), message)
                seen.add(conc)


def _spreads(written: Written) -> Iterator[Problem]:
    node = written.machines.hardware.get(written.entry.runner)
    for path, arm in written.entry.scenarios.arms():
        for role in _roles(arm):
            if (fault := role.spread_fault()) is not None:
                yield written.problem((*path, *role.path, "ep"), fault)
        # What faults_of refuses need not be told twice.
        if node is None or (_offloads(arm) and _unshared(arm, node.gpus_per_node)):
            continue
        for role in _roles(arm):
            if (fault := role.misfit(node.gpus_per_node)) is not None:
                yield written.problem((*path, *role.path), fault)


def _idle_share(written: Written) -> Iterator[Problem]:
    found: Sequence[AgenticScenario] = written.entry.scenarios.agentic_coding or ()
    for index, scenario in enumerate(found):
        if scenario.dram_utilization is None or any(map(_offloads, scenario.search_space)):
            continue
        path = ("scenarios", "agentic-coding", index, "dram-utilization")
        yield written.problem(path, "does nothing: no entry below it offloads KV")


def _offloads(arm: Entry) -> bool:
    if isinstance(arm, SingleNodeAgenticEntry | MultiNodeAgenticEntry):
        return arm.kv_offloading != "none"
    return False


def _unshared(arm: Entry, node: int) -> str | None:
    """Why the host memory of a node cannot be shared among the workers that offload, or None."""
    first = _roles(arm)[0]
    return first.misfit(node) if first.several or first.gpus > node else None


def _roles(arm: Entry) -> tuple[_Role, ...]:
    """The roles that have workers; prefill first, which is the one that offloads."""
    if isinstance(arm, SingleNodeEntry):
        gpus = arm.tp * arm.pp * arm.pcp_size
        return (_Role((), gpus, gpus, arm.ep or 1, several=False),)
    named = (("prefill", arm.prefill), ("decode", arm.decode))
    return tuple(_role(name, worker) for name, worker in named if worker.num_worker)


def _role(name: str, worker: Worker) -> _Role:
    gpus = worker.tp * worker.pp * worker.pcp_size
    return _Role((name,), gpus, gpus * worker.num_worker, worker.ep, several=True)
