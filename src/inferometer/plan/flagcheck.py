"""A launch's flags against the recorded parser of its engine, before a GPU is booked.

An error only where the parser is that of the image's own version: against another version, a
flag that is not there may be there all the same. What could not be checked is said, never passed
over. Pure but for the recorded parsers, which come with the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from inferometer.catalog import FlagOption, FlagSchema, flag_schemas
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
    """The fault with the version, and what other versions say of the flag or of its value."""
    here = f"{schema.engine} {schema.version}"
    others = _others(fault, schema, recorded)
    older = [other for other in others if other[0].order() < schema.order()]
    newer = [other for other in others if other[0].order() > schema.order()]
    elsewhere = ""
    if older or newer:
        nearest_one, option = older[-1] if older else newer[0]
        to = f", where it is replaced by {option.instead}" if older and option.instead else ""
        elsewhere = f"; {nearest_one.version} has it{to}"
    return replace(fault, message=f"{fault.message} ({here}{elsewhere})")


def _others(
    fault: WordFault, schema: FlagSchema, recorded: Sequence[FlagSchema]
) -> list[tuple[FlagSchema, FlagOption]]:
    """Versions, oldest first, in which the flag is an option and its value is a choice."""
    if fault.kind not in ("unknown", "ambiguous", "abbreviated", "choice"):
        return []
    found = [(each, each.by_name().get(spelled(fault.flag, schema))) for each in recorded]
    has = [(each, option) for each, option in found if option is not None]
    if fault.kind != "choice":
        return has
    return [(each, option) for each, option in has if fault.value in option.choices]


def _placed(finding: FlagFinding, plan: LaunchPlan) -> FlagFinding:
    """The finding with the rule that set the flag."""
    origin = _origin(finding, plan)
    if origin is None:
        return finding
    return replace(finding, file=origin[0], line=origin[1])


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
