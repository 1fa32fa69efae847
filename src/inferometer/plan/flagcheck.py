"""A launch's flags against the recorded parser of its engine, before a GPU is booked.

An error only where the parser is that of the image's own version: against another version, a
flag that is not there may be there all the same. What could not be checked is said, never passed
over. Pure but for the recorded parsers, which come with the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from inferometer.catalog import FlagSchema, flag_schemas
from inferometer.core import LaunchPlan
from inferometer.plan.flagversion import Matched, matched
from inferometer.plan.flagwords import MILD, WordFault, commanded, spelled, word_faults

Level = Literal["error", "warning", "note"]
Severity = Literal["exact", "strict", "lenient"]
"""Which faults are errors: those found against the parser of the image's own version, all, none."""


@dataclass(frozen=True, slots=True)
class FlagFinding:
    """One thing to tell of a launch's flags. `flag` as written in the argv; None where the finding
    is about all of them. `file` and `line`: the rule that set it, where known.
    """

    level: Level
    flag: str | None
    message: str
    file: str | None = None
    line: int | None = None


def check_flags(
    plan: LaunchPlan, engine: str, severity: Severity = "exact"
) -> tuple[FlagFinding, ...]:
    """What is to be told of a plan's flags; `engine` as config files name it (`framework`)."""
    return tuple(_placed(finding, plan) for finding in _findings(plan, engine, severity))


def check_words(
    words: Sequence[str], schema: FlagSchema, recorded: Sequence[FlagSchema] = ()
) -> tuple[WordFault, ...]:
    """The faults of the words behind a command; `recorded`: other versions of the engine, which
    tell where a flag is gone, or what it was replaced by.
    """
    return tuple(_told(fault, schema, recorded) for fault in word_faults(words, schema))


def _findings(plan: LaunchPlan, engine: str, severity: Severity) -> list[FlagFinding]:
    if not plan.argv:
        return []
    recorded = flag_schemas(engine)
    found = matched(plan.image, engine, recorded)
    if found is None:
        return [FlagFinding("note", None, f"no flags are recorded for {engine}: not checked")]
    words = commanded(plan.argv, found.schema)
    if words is None:
        known = " or ".join(" ".join(command) for command in found.schema.commands)
        return [FlagFinding("note", None, f"the command is not {known}: flags not checked")]
    findings = [
        FlagFinding(_level(fault, found, severity), fault.flag or None, fault.message)
        for fault in check_words(words, found.schema, recorded)
    ]
    return findings if found.exact else [_against(found, plan.image), *findings]


def _level(fault: WordFault, found: Matched, severity: Severity) -> Level:
    if severity == "exact":
        return "error" if found.exact and fault.kind not in MILD else "warning"
    return "error" if severity == "strict" else "warning"


def _against(found: Matched, image: str) -> FlagFinding:
    schema, asked = found.schema, found.asked
    version = f"{asked.version}, a build of its own" if asked.between else asked.version
    says = "names no version" if asked.version is None else f"says {version}"
    text = f"flags are checked against {schema.engine} {schema.version}; image {image} {says}"
    return FlagFinding("note", None, text)


def _told(fault: WordFault, schema: FlagSchema, recorded: Sequence[FlagSchema]) -> WordFault:
    """The fault with the version, and what other versions say of the flag."""
    here = f"{schema.engine} {schema.version}"
    elsewhere = ""
    if fault.kind in ("unknown", "ambiguous", "abbreviated"):
        elsewhere = _elsewhere(spelled(fault.flag, schema), schema, recorded)
    return WordFault(fault.kind, fault.flag, f"{fault.message} ({here}{elsewhere})")


def _elsewhere(flag: str, schema: FlagSchema, recorded: Sequence[FlagSchema]) -> str:
    """In which nearest other version the flag is an option, and what replaces it."""
    others = [(each, each.by_name().get(flag)) for each in recorded]
    older = [(each, option) for each, option in others if option and each.order() < schema.order()]
    newer = [each for each, option in others if option and each.order() > schema.order()]
    if older:
        last, option = older[-1]
        to = f", where it is replaced by {option.instead}" if option.instead else ""
        return f"; {last.version} has it{to}"
    return f"; {newer[0].version} has it" if newer else ""


def _placed(finding: FlagFinding, plan: LaunchPlan) -> FlagFinding:
    """The finding with the rule that set the flag."""
    origin = _origin(finding, plan)
    if origin is None:
        return finding
    return FlagFinding(finding.level, finding.flag, finding.message, *origin)


def _origin(finding: FlagFinding, plan: LaunchPlan) -> tuple[str, int | None] | None:
    """A flag as the parser reads it may be spelled otherwise in the layers."""
    if finding.flag is None:
        return None
    for key, origin in plan.origins.items():
        section, _, flag = key.partition(".")
        if section == "argv" and _same(flag) == _same(finding.flag):
            return origin.layer, origin.line
    return None


def _same(flag: str) -> str:
    return flag.partition("=")[0].replace("_", "-")
