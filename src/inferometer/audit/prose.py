"""Values that a description claims, in English, Chinese or both: `from 4 to 8`, `0.85 -> 0.9`,
`X=1`, `将 X 从 a 改为 b`, "a 32,768-token checkpoint interval".

Finds only what stands beside a name; everything else that looks like a claim is handed back as not
placed. Says nothing of what is true.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from inferometer.audit.names import LADDER_WORDS, Mention, Vocabulary

_QUOTED = r"`[^`\n]{1,300}`|\"[^\"\n]{1,300}\"|'[^'\n]{1,300}'|“[^”\n]{1,300}”"
_SPACED = r"(?<![\w.,])\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?![\w.,]*\d)"
_PLAIN = (
    rf"{_SPACED}|"
    r"[A-Za-z0-9_./:@#+~·*×-]{0,200}\d[A-Za-z0-9_./:@#+~·*×,%-]{0,200}"
    r"|true|false|True|False|on\b|off\b"
)
"""Bounded, so that no text takes a time squared in its length."""
_VALUE = rf"(?:{_QUOTED}|{_PLAIN})"
_ARROW = r"(?:->|→|=>|⟶)"
_FROM = r"(?:from|从|由|was|:|：|=|\()?"
_BECOMES = (
    *("改为", "改成", "调整为", "调整到", "提高到", "提升到", "增加到", "降低到", "降到", "减少到"),
    *("升级到", "升级为", "更新为", "更新到", "变为", "设为", "设置为", "到", "至"),
)
_TO = rf"(?:{_ARROW}|to|up to|down to|{'|'.join(_BECOMES)})"
_IS = (
    r"(?:=|:|：|to|of|is|are|at|as|by|set to|now|value|size|为|是|"
    rf"{'|'.join(_BECOMES)})"
)
_CLOSE = r"[`\"'”)\]]?"
_RIGHT_BOTH = re.compile(
    rf"{_CLOSE}\s*(?:tag|tags|value|版本|标签)?\s*(?:(?:[a-z]+\s+){{1,2}}from|{_FROM})\s*"
    rf"({_VALUE}|\S{{1,60}})\s*{_TO}\s*({_VALUE})",
    re.IGNORECASE,
)
_RIGHT_ONE = re.compile(rf"{_CLOSE}\s*(?:{_IS}\s*){{0,3}}({_VALUE})", re.IGNORECASE)
_RIGHT_CLOSED = re.compile(rf"{_CLOSE}\s*[(（]\s*({_VALUE})\s*[)）]", re.IGNORECASE)
_WORD = r"[A-Za-z][A-Za-z0-9_./-]{0,60}"
_RIGHT_WORDS = re.compile(
    rf"{_CLOSE}\s*(?:from|从|由|:|：)?\s*[`\"']?({_WORD})[`\"']?"
    rf"(?:\s*(?:{_ARROW}|{'|'.join(_BECOMES)})\s*|\s+to\s+)[`\"']?({_WORD})",
    re.IGNORECASE,
)
"""Values without a digit: two words, of which one must be a known value for the other to count."""
_RIGHT_WORD = re.compile(rf"(=|[ ](?={_WORD}`))({_WORD})")
"""`X=word`, or a word in the same quotes as a flag."""
_LEFT_BOTH = re.compile(rf"({_VALUE})\s*{_TO}\s*({_VALUE})[\s-]*$", re.IGNORECASE)
_LEFT_ONE = re.compile(
    rf"(?<![\w.,])({_VALUE})(?:[\s-]+(?:tokens?|steps?|个|的))?[\s-]*$", re.IGNORECASE
)
_LOOKS_LIKE_ONE = re.compile(
    rf"\bfrom\s+{_VALUE}\s+to\s+{_VALUE}|从\s*{_VALUE}\s*{_TO}\s*{_VALUE}"
    rf"|(?<![\w./:@,-]){_VALUE}\s*{_ARROW}\s*{_VALUE}"
    rf"|(?<![\w.-])[A-Za-z_][\w.-]{{0,100}}={_VALUE}|(?<![\w-])--[a-z][\w.-]{{0,100}}[ =]{_VALUE}",
    re.IGNORECASE,
)
_NEAR = 160
"""Characters around a name in which its value may stand."""
_UNIT = re.compile(r"\s*(?:x\b|ms\b|tok/s|tokens/s|GiB|GB|MiB|W\b|J\b)")
_MEASURE = re.compile(r"\s*(?:%|min(?:utes?)?\b|h(?:ours?)?\b|分钟|小时)", re.IGNORECASE)
"""What stands behind a number and makes it another: kept with it."""
_FACTORS = {
    **{"": (1.0,), "k": (1_000.0, 1_024.0), "m": (1_000_000.0, 1_048_576.0)},
    **{"s": (1.0,), "x": (1.0,), "%": (1.0, 0.01), "min": (60.0,), "h": (3600.0,)},
}


@dataclass(frozen=True, slots=True)
class Said:
    """A claim of a text: keys that its name may mean, and the values. None: not said."""

    mention: Mention
    old: str | None
    new: str
    start: int
    end: int
    words: bool = False
    """Both values are words: a claim only where one of them is a value of the key."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one text says."""

    said: tuple[Said, ...]
    mentions: tuple[Mention, ...]
    unplaced: tuple[str, ...]
    """Parts that look like claims and have no known name."""


def read_text(text: str, vocabulary: Vocabulary) -> Reading:
    """Every claim about a key of the vocabulary, and what looks like one beside."""
    mentions = vocabulary.mentions(text)
    said = []
    for index, mention in enumerate(mentions):
        low = mentions[index - 1].end if index else 0
        high = mentions[index + 1].start if index + 1 < len(mentions) else len(text)
        if (found := _said(text, mention, low, high)) is not None:
            said.append(found)
    spans = [(found.start, found.end) for found in said]
    unplaced = [
        match[0]
        for match in _LOOKS_LIKE_ONE.finditer(text)
        if all(match.end() <= start or match.start() >= end for start, end in spans)
    ]
    return Reading(tuple(said), tuple(mentions), tuple(dict.fromkeys(unplaced)))


def concurrencies(text: str) -> set[int]:
    """Numbers that stand behind a word for concurrency: those of a ladder, perhaps."""
    found: set[int] = set()
    words = "|".join(LADDER_WORDS)
    for match in re.finditer(rf"(?:{words})[^\d.;。；]{{0,40}}", text, re.IGNORECASE):
        rest = text[match.end() : match.end() + _NEAR]
        run = re.match(r"(?:[\d\s/\[\](){}~–—\-、，]|,\s?|and|to|和|与|至|到|\+|->|→)+", rest)
        found |= {int(n.replace(",", "")) for n in re.findall(r"\d+", run[0])} if run else set()
    for match in re.finditer(rf"([\d\s,/和与and、]+)\s*(?:-?way\s+)?(?:{words})", text):
        found |= {int(number) for number in re.findall(r"\d{1,6}", match[1])}
    return found


def names_ladder(text: str) -> bool:
    """Whether a text speaks of concurrency at all."""
    return re.search("|".join(LADDER_WORDS), text, re.IGNORECASE) is not None


def same_value(claimed: str, resolved: str | None, key: str = "") -> bool:
    """Whether a value of a text is a resolved one: numbers by their value, an image by any whole
    part of its name.
    """
    if resolved is None:
        return claimed.lower() in ("none", "off", "unset", "default", "无")
    if claimed == resolved or claimed.lower() == resolved.lower():
        return True
    if key == "image" or "/" in resolved:
        return re.search(rf"(?:^|[/:@]|:v){re.escape(claimed)}(?:$|[:@])", resolved) is not None
    one, other = numbers_of(claimed), numbers_of(resolved)
    if one and other:
        return bool(one & other)
    switch = {"true": ("on", "1"), "1": ("true", "on"), "0": ("false", "off")}
    return claimed.lower() in switch.get(resolved.lower(), ())


def numbers_of(text: str) -> set[float]:
    """What a number of a text may be: `1,024` is 1024, `32K` is 32000 or 32768, `90 %` is 0.9 or
    90, `60 min` is 3600.
    """
    match = re.fullmatch(
        r"([+-]?(?:\d{1,3}(?:[,_ \u00a0\u202f]\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?)"
        r"\s*(k|m|s|x|×|%|min(?:utes?)?|h(?:ours?)?|分钟|小时|)",
        text,
        re.IGNORECASE,
    )
    if match is None:
        return set()
    unit = {"×": "x", "分钟": "min", "小时": "h"}.get(match[2], match[2].lower())
    unit = next(name for name in ("min", "h", unit) if unit.startswith(name))
    number = float(re.sub(r"[,_ \u00a0\u202f]", "", match[1]))
    return {round(number * factor, 12) for factor in _FACTORS[unit]}


def _said(text: str, mention: Mention, low: int, high: int) -> Said | None:
    """The claim beside a name: behind it first, then before it, never beyond the next name."""
    right = text[mention.end : min(high, mention.end + _NEAR)]
    left = text[max(low, mention.start - _NEAR) : mention.start]
    if (both := _RIGHT_BOTH.match(right)) and _is_value(both[2]):
        return _made(mention, both[1], both[2], mention.start, mention.end + both.end())
    one = _RIGHT_CLOSED.match(right) or _RIGHT_ONE.match(right)
    if one and not _UNIT.match(right[one.end() :]):
        unit = _MEASURE.match(right[one.end() :])
        value = one[1] + unit[0] if unit else one[1]
        return _made(mention, None, value, mention.start, mention.end + one.end())
    if (words := _words(right, mention)) is not None:
        return words
    if both := _LEFT_BOTH.search(left):
        return _made(
            mention, both[1], both[2], mention.start - len(left) + both.start(), mention.end
        )
    if one := _LEFT_ONE.search(left):
        return _made(mention, None, one[1], mention.start - len(left) + one.start(), mention.end)
    return None


def _words(right: str, mention: Mention) -> Said | None:
    """A claim of words behind a name."""
    if words := _RIGHT_WORDS.match(right):
        end = mention.end + words.end()
        return Said(mention, _bare(words[1]), _bare(words[2]), mention.start, end, words=True)
    if mention.exact and (word := _RIGHT_WORD.match(right)):
        return _made(mention, None, word[2], mention.start, mention.end + word.end())
    return None


def _made(mention: Mention, old: str | None, new: str, start: int, end: int) -> Said:
    before = _bare(old) if old is not None and _is_value(old) else None
    return Said(mention, before, _bare(new), start, end)


def _is_value(text: str) -> bool:
    return re.fullmatch(_VALUE, text.rstrip(".,;:)"), re.IGNORECASE) is not None


def _bare(text: str) -> str:
    """A value without quotes and without what ends a sentence."""
    plain = text.strip("`\"'“”").rstrip(".,;:)-")
    return re.sub(r"(?<=\d)-(?:tokens?|steps?|way)$", "", plain, flags=re.IGNORECASE)
