"""Which recorded parser speaks for an image: by the version that its tag names, else by its date.

A tag is a hint that people type. It is trusted only where the image is named after the engine and
nothing in the tag says that it is a build between versions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from inferometer.catalog import FlagSchema, version_order

NAMES: Mapping[str, tuple[str, ...]] = {"trt": ("tensorrt-llm", "trtllm", "tensorrtllm")}
"""What images call an engine, where it is not its own name."""
_VERSION = r"v?(\d+\.\d+(?:\.\d+)*(?:\.?(?:rc|post)\d*)*)(?![\d.])"
_DATE = re.compile(r"(?<!\d)(20\d\d)(0[1-9]|1[0-2])([0-3]\d)(?:\d{4})?(?!\d)")
_BETWEEN = re.compile(r"nightly|dev|(?:^|[-_.])(?=[0-9a-f]*\d)[0-9a-f]{7,40}(?:$|[-_.])")
"""In a tag: a build between versions. A commit, or a word for it."""


@dataclass(frozen=True, slots=True)
class ImageVersion:
    """What an image's name tells of its engine. `version` None: nothing."""

    version: str | None
    built: date | None
    between: bool
    """Not the release of that version: something else was built under its name."""


@dataclass(frozen=True, slots=True)
class Matched:
    """The recorded parser nearest to an image, and whether it is that of the image's version."""

    schema: FlagSchema
    exact: bool
    asked: ImageVersion


def image_version(image: str, engine: str) -> ImageVersion:
    """The version that an image's tag names, and the day it was built where the tag tells."""
    name, _, tag = image.partition("@")[0].rpartition(":")
    if "/" in tag or not name:
        name, tag = image.partition("@")[0], ""
    called = [re.escape(word) for word in NAMES.get(engine, (engine,))]
    named = "|".join(called)
    after_name = re.search(rf"(?:{named})[-_]?{_VERSION}", tag)
    at_start = re.match(_VERSION, tag) if re.search(named, name) else None
    alone = re.search(rf"(?:^|-){_VERSION}(?=-|$)", tag) if re.search(named, name) else None
    found = after_name or at_start or alone
    built = _DATE.search(tag)
    between = built is not None or _BETWEEN.search(tag) is not None
    return ImageVersion(found[1] if found else None, _day(built), between)


def matched(image: str, engine: str, recorded: Sequence[FlagSchema]) -> Matched | None:
    """Of parsers recorded, oldest first: the one of the image's version; else the newest that is
    older; else the oldest. Without a version the one released nearest to the build; without that
    the newest. None where none is recorded.
    """
    if not recorded:
        return None
    asked = image_version(image, engine)
    if asked.version is None:
        return Matched(_by_date(asked.built, recorded), exact=False, asked=asked)
    order = version_order(asked.version)
    older = [schema for schema in recorded if schema.order() <= order]
    schema = older[-1] if older else recorded[0]
    return Matched(schema, exact=schema.order() == order and not asked.between, asked=asked)


def _by_date(built: date | None, recorded: Sequence[FlagSchema]) -> FlagSchema:
    dated = [(schema, _released(schema)) for schema in recorded]
    gaps = [(abs((day - built).days), schema) for schema, day in dated if day and built]
    return min(gaps, key=lambda gap: gap[0])[1] if gaps else recorded[-1]


def _released(schema: FlagSchema) -> date | None:
    """The first of a month where only that is known."""
    text = schema.released
    return None if text is None else date.fromisoformat(text if len(text) > 7 else f"{text}-01")


def _day(found: re.Match[str] | None) -> date | None:
    try:
        return date(int(found[1]), int(found[2]), int(found[3])) if found else None
    except ValueError:
        return None
