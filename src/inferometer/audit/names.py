"""Which key a person means by a name: `--max-num-seqs`, MAX_NUM_SEQS, "checkpoint interval".

An exact name comes first, then the same words written otherwise, then the words of a key in a row,
each of which may be shortened (REQ_EQUIV is "request equivalence"). Names of one everyday word are
taken only as written in a launch. Knows no values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from inferometer.audit.flatten import bare

IMAGE_WORDS = ("image", "镜像")
LADDER_WORDS = ("concurrency", "concurrencies", "conc", "ladder", "并发")
_SECTIONS = frozenset({"argv", "env", "files", "client", "workload", "router"})
_WORD = re.compile(r"[a-z0-9]+")
_CHINESE = {
    **{"检查点": "checkpoint", "间隔": "interval", "请求": "request", "等价": "equivalence"},
    **{"捕获": "capture", "图": "graph", "大小": "size", "显存": "memory", "内存": "memory"},
    **{"利用率": "utilization", "后端": "backend", "序列": "seqs", "预热": "warmup"},
    **{"比例": "ratio", "批": "batch", "分块": "chunked", "预填充": "prefill", "解码": "decode"},
    **{
        "缓存": "cache",
        "调度": "schedule",
        "并行": "parallel",
        "专家": "expert",
        "上下文": "context",
    },
}
"""Words of keys as they stand in Chinese sentences."""
_WORDS = re.compile(rf"[A-Za-z0-9]+|{'|'.join(sorted(_CHINESE, key=len, reverse=True))}")
_SHORTEST = 3
"""Letters that a shortened word keeps."""
_MOST_WORDS = 6
_VAGUE = frozenset(
    (
        *("a", "an", "and", "at", "by", "for", "from", "in", "is", "of", "on", "or", "the", "to"),
        *("with", "per", "use", "used", "no", "not", "new", "old", "all", "both", "add", "set"),
        *("run", "runs", "up", "as", "token", "tokens", "size", "max", "min", "num", "number"),
        "count",
    )
)
"""Words that alone name nothing: a phrase needs two others."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A place in a text that names a key, or several equally well."""

    start: int
    end: int
    keys: tuple[str, ...]
    exact: bool
    """Written as in a launch, not in words."""


def normal(name: str) -> str:
    """`max-num-seqs` for `--max_num_seqs` and MAX_NUM_SEQS."""
    return re.sub(r"[\s_.]+", "-", name.strip().lstrip("-").lower())


def meant(name: str, keys: Iterable[str]) -> tuple[str, ...]:
    """The keys that a name in a change entry stands for; several where it is ambiguous."""
    known = list(dict.fromkeys(keys))
    if name in known:
        return (name,)
    for of in (_short, _normal_short, _normal_leaf):
        found = tuple(key for key in known if name == of(key) or normal(name) == of(key))
        if found:
            return found
    return ()


class Vocabulary:
    """The keys that a text may name."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._exact: dict[str, list[str]] = {}
        self._words: dict[str, tuple[str, ...]] = {}
        self._begun: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
        for key in dict.fromkeys(keys):
            for name in {key, _short(key), _normal_short(key), _normal_leaf(key)}:
                self._exact.setdefault(name, []).append(key)
            self._words[key] = tuple(_WORD.findall(_short(key).lower()))

    def mentions(self, text: str) -> list[Mention]:
        """Every name in a text, in order; none overlaps another."""
        found = list(self._by_name(text))
        taken = [(mention.start, mention.end) for mention in found]
        for mention in self._by_words(text):
            if all(mention.end <= start or mention.start >= end for start, end in taken):
                found.append(mention)
        return sorted(found, key=lambda mention: mention.start)

    def _by_name(self, text: str) -> Iterator[Mention]:
        for match in re.finditer(r"(?<![\w-])-{0,2}[A-Za-z][\w.-]*[A-Za-z0-9_]", text):
            word = match[0]
            keys = self._exact.get(word) or self._exact.get(normal(word), [])
            if keys and _is_written(word):
                yield Mention(match.start(), match.end(), tuple(keys), exact=True)
        if "image" in self._words:
            for match in re.finditer(r"\bimage\b|镜像", text, re.IGNORECASE):
                yield Mention(match.start(), match.end(), ("image",), exact=True)

    def _by_words(self, text: str) -> Iterator[Mention]:
        """Runs of words that are words of a key in a row; the longest run at each place."""
        found = _WORDS.finditer(text)
        spans = [(_CHINESE.get(m[0], m[0].lower()), m.start(), m.end()) for m in found]
        at = 0
        while at < len(spans):
            best, keys = 0, []
            for key, words in self._beginning(spans[at][0]):
                length = _run(spans[at : at + _MOST_WORDS], words)
                if length > best:
                    best, keys = length, [key]
                elif length == best and best and key not in keys:
                    keys.append(key)
            if best:
                yield Mention(spans[at][1], spans[at + best - 1][2], tuple(keys), exact=False)
            at += best or 1

    def _beginning(self, word: str) -> list[tuple[str, tuple[str, ...]]]:
        """(key, its words from there on) wherever a key has a word that this one may stand for."""
        if word not in self._begun:
            self._begun[word] = [
                (key, words[start:])
                for key, words in self._words.items()
                for start, known in enumerate(words[:-1])
                if _alike(word, known)
            ]
        return self._begun[word]


def _run(spans: list[tuple[str, int, int]], words: tuple[str, ...]) -> int:
    """How many words of a text are words of a key in a row; 0 where they name nothing."""
    length = 0
    for (word, _, _), known in zip(spans, words, strict=False):
        if not _alike(word, known):
            break
        length += 1
    telling = sum(1 for word, _, _ in spans[:length] if word not in _VAGUE)
    return length if length >= 2 and telling >= 2 else 0


@lru_cache(maxsize=65_536)
def _alike(word: str, known: str) -> bool:
    """Whether one word is the other, its plural, or short for it."""
    one, other = word.rstrip("s") or word, known.rstrip("s") or known
    if one == other:
        return True
    if min(len(one), len(other)) < _SHORTEST or one.isdigit() or other.isdigit():
        return False
    return one.startswith(other) or other.startswith(one) or (other.endswith(one) and len(one) > 4)


def _is_written(word: str) -> bool:
    """Whether a word looks like part of a launch rather than of a sentence."""
    inner = word.strip("-")
    return word.startswith("-") or "_" in inner or "-" in inner or "." in inner or word.isupper()


def _short(key: str) -> str:
    """A key without its launch and its section."""
    key = bare(key)
    section, _, rest = key.partition(".")
    return rest if section in _SECTIONS and rest else key


def _normal_short(key: str) -> str:
    return normal(_short(key))


def _normal_leaf(key: str) -> str:
    return normal(key.rpartition(".")[2])
