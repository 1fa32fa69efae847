"""Prompts in a tokenizer's own tokens: exact, aligned, and the same after it reads them again."""

from __future__ import annotations

import os
import runpy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers_made import CONFIG, KINDS, TEMPLATE, made, write

from inferometer.core import Prompt, Session, Turn
from inferometer.errors import InputError
from inferometer.workload import PromptRules, PromptText, make_lexicon, prompt_of, read_weka
from inferometer.workload.chat_template import NoTemplate, chat_wrapper
from inferometer.workload.prompt_text import word_numbers
from inferometer.workload.tokenizer_files import tokenizer_digest, tokenizer_files
from inferometer.workload.tokenizer_fit import Fit, fit

SIZE = 16
"""Tokens a block in most tests: below what some templates put before the text."""
REAL = "INFEROMETER_TOKENIZERS"
"""Names a folder; every tokenizer.json below it is tried."""


@dataclass(frozen=True, eq=False)
class Target:
    """A tokenizer at an endpoint: what is sent, and what the server would make of it."""

    fit: Fit
    text: PromptText
    ids: Callable[[str], list[int]]

    def server_ids(self, prompt: Prompt) -> list[int]:
        return self.ids(str(self.text.render(prompt)))


def target(folder: Path, endpoint: str) -> Target:
    found = fit(str(folder), endpoint)
    lexicon = make_lexicon(found.words, found.token_ids, found.starts)
    rules = PromptRules(lexicon, "text", found.head, found.foot, {})
    files = tokenizer_files(str(folder))
    tokenizer = Tokenizer.from_file(str(files.tokenizer))
    wrap = chat_wrapper(files) if endpoint == "chat" and found.added_known else str
    special = endpoint != "chat"

    def ids(text: str) -> list[int]:
        return list(tokenizer.encode(wrap(text), add_special_tokens=special).ids)

    return Target(found, PromptText(rules), ids)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tokenizers")
    for kind in KINDS:
        write(kind, place / kind)
    return place


@pytest.fixture(
    scope="module",
    params=[f"{kind} {endpoint}" for kind in (*KINDS, "bundled") for endpoint in ("chat", "text")],
)
def aimed(request: pytest.FixtureRequest, folder: Path) -> Target:
    kind, endpoint = request.param.split()
    place = Path("bundled") if kind == "bundled" else folder / kind
    return target(place, "chat" if endpoint == "chat" else "completions")


def prompt(blocks: list[int], tail: int, tail_id: int = 9_000, size: int = SIZE) -> Prompt:
    return Prompt(np.array(blocks, np.int64), size, tail, tail_id)


def common(left: list[int], right: list[int]) -> int:
    pairs = zip(left, right, strict=False)
    least = min(len(left), len(right))
    return next((n for n, (a, b) in enumerate(pairs) if a != b), least)


def test_a_fit_has_words_and_no_drift(aimed: Target) -> None:
    found = aimed.fit
    assert (found.drift_max, found.drift_mean) == (0, 0)
    assert found.added_known
    assert found.why is None
    assert len(found.words) == len(set(found.token_ids)) >= 256
    assert found.starts == len(found.words)
    assert len({len(word) for word in found.words}) == 1


@settings(max_examples=10)
@given(
    blocks=st.lists(st.integers(0, 5_000), max_size=9, unique=True),
    tail=st.integers(0, 200),
    size=st.sampled_from([1, 16, 64]),
)
def test_the_server_counts_what_was_recorded(
    aimed: Target, blocks: list[int], tail: int, size: int
) -> None:
    meant = prompt(blocks, tail, size=size)
    added = aimed.fit.head + aimed.fit.foot
    assert len(aimed.server_ids(meant)) == max(meant.tokens, added + 1)


@settings(max_examples=10)
@given(
    shared=st.lists(st.integers(0, 999), min_size=2, max_size=6, unique=True),
    left=st.lists(st.integers(1_024, 1_055), max_size=3, unique=True),
    right=st.lists(st.integers(1_056, 1_087), max_size=3, unique=True),
)
def test_the_server_sees_prefixes_end_where_ids_part(
    aimed: Target, shared: list[int], left: list[int], right: list[int]
) -> None:
    # In a session the numbers of what follows one block are consecutive; here they are near.
    pair = [prompt(shared + left, 40, 1_100), prompt(shared + right, 40, 1_101)]
    seen = [aimed.server_ids(one) for one in pair]
    assert common(*seen) == len(shared) * SIZE


def test_what_the_template_takes_is_counted_where_nothing_is_left(aimed: Target) -> None:
    rules = PromptRules(
        make_lexicon(aimed.fit.words, aimed.fit.token_ids, aimed.fit.starts), "text", 4, 3, {}
    )
    text = PromptText(rules)
    taken = [text.take(prompt([], tail)) for tail in (0, 1, 7, 8, 9)]
    assert [len(str(one).split()) for one in taken] == [1, 1, 1, 1, 2]
    assert text.notes()["prompts_below_template"] == 3


def test_token_ids_are_those_of_the_text(aimed: Target) -> None:
    lexicon = make_lexicon(aimed.fit.words, aimed.fit.token_ids, aimed.fit.starts)
    meant = prompt([3, 4, 5], 7)
    ids = PromptText(PromptRules(lexicon, "token_ids", 0, 0, {})).render(meant)
    assert isinstance(ids, list)
    assert len(ids) == meant.tokens
    served = aimed.ids(str(PromptText(PromptRules(lexicon, "text", 0, 0, {})).render(meant)))
    head, foot = aimed.fit.head, aimed.fit.foot
    # The first word may be another token where no space stands before it.
    assert served[head + 1 : len(served) - foot] == ids[1:]


@pytest.fixture(scope="module")
def sessions(shared_data: Path) -> tuple[Session, ...]:
    return read_weka(shared_data / "agentic")


def pairs(session: Session, count: int) -> Iterator[tuple[Turn, Turn]]:
    """Neighbours and others drawn, no turn with itself."""
    rng = np.random.default_rng(3)
    for number in range(count if len(session.turns) > 1 else 0):
        first = int(rng.integers(len(session.turns) - 1))
        apart = 1 if number % 2 else int(rng.integers(1, len(session.turns)))
        yield session.turns[first], session.turns[(first + apart) % len(session.turns)]


def shared_blocks(turns: tuple[Turn, Turn]) -> int:
    return common(*(turn.block_ids.tolist() for turn in turns))


def around_the_parting(session: Session, turns: tuple[Turn, Turn]) -> tuple[list[Prompt], int]:
    """The prompts of two turns, some blocks about where their ids part, and the blocks shared."""
    at = shared_blocks(turns)
    low, high = max(0, at - 8), at + 4
    cut = []
    for turn in turns:
        whole = prompt_of(session, turn, 77)
        tail = whole.tail_tokens % session.block_size if len(whole.blocks) <= high else 20
        cut.append(Prompt(whole.blocks[low:high], whole.block_size, tail, whole.tail_id))
    return cut, at - low


def assert_exact(aimed: Target, sessions: tuple[Session, ...]) -> None:
    """Of every session pairs of prompts, cut to where they part; and some whole ones."""
    head, foot = aimed.fit.head, aimed.fit.foot
    for session in sessions:
        for turns in pairs(session, 4):
            cut, blocks = around_the_parting(session, turns)
            seen = [aimed.server_ids(one) for one in cut]
            meant = [max(one.tokens, head + foot + 1) for one in cut]
            assert [len(ids) for ids in seen] == meant
            # A template ends a prompt: text that has no room is not shared.
            shared = max(blocks * session.block_size, head)
            assert common(*seen) == min(shared, min(meant) - foot)
    short = sorted((turn.input_tokens, n) for n, s in enumerate(sessions) for turn in s.turns[:1])
    for tokens, number in short[:6]:
        session = sessions[number]
        whole = aimed.server_ids(prompt_of(session, session.turns[0], 77))
        assert len(whole) == max(tokens, head + foot + 1)


@pytest.mark.parametrize("words", [256, 1024])
def test_words_part_where_ids_part_in_all_recorded_sessions(
    words: int, sessions: tuple[Session, ...]
) -> None:
    lexicon = make_lexicon([f"{n:04d}" for n in range(words)], range(words), words)
    rules = PromptRules(lexicon, "text", 10, 5, {})
    assert len(sessions) == 48
    for session in sessions:
        for turns in pairs(session, 8):
            seen = [word_numbers(prompt_of(session, turn, 77), rules) for turn in turns]
            lengths = [max(1, turn.input_tokens - 15) for turn in turns]
            assert [len(one) for one in seen] == lengths
            least = min(lengths)
            parted = np.flatnonzero(seen[0][:least] != seen[1][:least])
            shared = max(0, shared_blocks(turns) * session.block_size - 10)
            assert (int(parted[0]) if len(parted) else least) == min(shared, least)


@pytest.mark.parametrize("kind", ["byte-level", "prepended", "unigram", "wordpiece"])
def test_all_recorded_sessions_are_exact_when_tokenized_again(
    kind: str, folder: Path, sessions: tuple[Session, ...]
) -> None:
    aimed = target(folder / kind, "chat")
    assert aimed.fit.added_known
    assert_exact(aimed, sessions)


def real_tokenizers() -> list[str]:
    place = os.environ.get(REAL)
    return sorted(str(file.parent) for file in Path(place).rglob("tokenizer.json")) if place else []


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
@pytest.mark.parametrize("place", real_tokenizers() or [None])
def test_real_tokenizers(place: str | None, endpoint: str, sessions: tuple[Session, ...]) -> None:
    if place is None:
        pytest.skip(f"{REAL} names no folder with a tokenizer.json below it")
    aimed = target(Path(place), endpoint)
    assert (aimed.fit.drift_max, aimed.fit.drift_mean) == (0, 0)
    if aimed.fit.added_known:
        assert_exact(aimed, sessions)


def test_blocks_of_other_plays_part_early(aimed: Target) -> None:
    ids = [key << 20 | number for key in range(1, 30) for number in range(30)]
    rows = [aimed.ids(str(aimed.text.render(prompt([one], 0, size=64)))) for one in ids]
    rows.sort()
    longest = max(common(a, b) for a, b in pairwise(rows))
    assert longest < aimed.fit.head + 8


def test_a_template_in_a_file_of_its_own_comes_first(folder: Path, tmp_path: Path) -> None:
    place = write("byte-level", tmp_path / "t")
    (place / "tokenizer_config.json").write_text('{"chat_template": "no: {{ messages }}"}')
    assert chat_wrapper(tokenizer_files(str(place)))("x") == "[user]\nx\n[assistant]\n"
    (place / "chat_template.jinja").unlink()
    assert chat_wrapper(tokenizer_files(str(place)))("x").startswith("no: [{")
    listed = '{"chat_template": [{"name": "default", "template": "<{{ bos_token }}>"}]}'
    (place / "tokenizer_config.json").write_text(listed)
    assert chat_wrapper(tokenizer_files(str(place)))("x") == "<>"


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{% for", "is not read"),
        ("{{ raise_exception('only system messages') }}", "only system messages"),
        ("{{ ''.__class__.__mro__ }}", "does not render"),
        ("{{ messages[3]['role'] }}", "does not render"),
        ("{{ 1 // 0 }}", "does not render"),
    ],
)
def test_a_template_that_cannot_be_used_is_learned_from_the_server(
    template: str, why: str, folder: Path, tmp_path: Path
) -> None:
    place = tmp_path / "t"
    place.mkdir()
    (place / "tokenizer.json").write_bytes((folder / "byte-level/tokenizer.json").read_bytes())
    (place / "chat_template.jinja").write_text(template)
    with pytest.raises(NoTemplate, match=why):
        chat_wrapper(tokenizer_files(str(place)))("x")
    found = fit(str(place), "chat")
    assert not found.added_known
    assert why in str(found.why)
    assert (found.head, found.foot, found.drift_max) == (0, 0, 0)


def test_templates_have_what_servers_give_them(tmp_path: Path) -> None:
    place = tmp_path / "t"
    place.mkdir()
    (place / "tokenizer.json").write_text("{}")
    (place / "chat_template.jinja").write_text(
        "{{ strftime_now('%Y') | length }}{{ messages[0] | tojson }}"
        "{% for m in messages %}{% break %}{% endfor %}{{ tools is none }}"
    )
    rendered = chat_wrapper(tokenizer_files(str(place)))("x")
    assert rendered == '4{"role":"user","content":"x"}True'


def test_a_digest_is_of_all_that_decides(tmp_path: Path) -> None:
    place = tmp_path / "t"
    place.mkdir()
    (place / "tokenizer.json").write_text("{}")
    digests = [tokenizer_digest(str(place))]
    (place / "tokenizer_config.json").write_text(CONFIG)
    digests.append(tokenizer_digest(str(place)))
    (place / "chat_template.jinja").write_text(TEMPLATE)
    digests.append(tokenizer_digest(str(place)))
    (place / "README.md").write_text("x")
    assert tokenizer_digest(str(place)) == digests[-1]
    assert tokenizer_digest(str(place / "tokenizer.json")) == digests[-1]
    assert len(set(digests)) == 3
    assert all(len(digest) == 64 for digest in digests)


def test_a_missing_tokenizer_says_what_one_is(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tokenizer\.json: no such file; a tokenizer is a folder"):
        tokenizer_digest(str(tmp_path))


def test_a_tokenizer_of_bytes_has_no_words(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.BPE(vocab={c: n for n, c in enumerate("abcdefgh")}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match="too few words"):
        fit(str(tmp_path), "completions")


def test_words_that_merge_with_a_neighbour_are_left_out(tmp_path: Path) -> None:
    tokenizer = made("prepended")
    (tmp_path / "plain").mkdir()
    tokenizer.save(str(tmp_path / "plain/tokenizer.json"))
    clean = fit(str(tmp_path / "plain"), "completions")
    # One token for two words in a row, as vocabularies of longer units have.
    state = tokenizer.to_str()
    first, second = clean.words[0], clean.words[1]
    merged = f"▁{first}▁{second}"
    changed = state.replace('"vocab":{', f'"vocab":{{"{merged}":99999,', 1)
    changed = changed.replace('"merges":[', f'"merges":[["▁{first}","▁{second}"],', 1)
    (tmp_path / "tokenizer.json").write_text(changed)
    odd = Tokenizer.from_str(changed)
    assert len(odd.encode(f"x {first} {second}", add_special_tokens=False).ids) < len(
        tokenizer.encode(f"x {first} {second}", add_special_tokens=False).ids
    )
    found = fit(str(tmp_path), "completions")
    assert second not in found.words
    assert (found.drift_max, len(found.words)) == (0, 256)


def test_rules_of_another_form_are_other_bytes() -> None:
    rules = PromptRules(make_lexicon(["aa", "bb"], [5, 6], 2), "token_ids", 0, 0, {})
    meant = prompt([1, 2], 3)
    ids, text = (
        PromptText(rules).render(meant),
        PromptText(replace(rules, form="text")).render(meant),
    )
    assert isinstance(ids, list)
    assert [{5: "aa", 6: "bb"}[one] for one in ids] == str(text).split()


def test_the_bundled_tokenizer_can_be_made_again() -> None:
    script = Path(__file__).parents[2] / "bench/bundled_tokenizer.py"
    made_again = runpy.run_path(str(script))
    folder = made_again["FOLDER"]
    fresh = orjson.loads(made_again["trained"]().to_str())
    kept = orjson.loads((folder / "tokenizer.json").read_bytes())
    assert fresh["model"] == kept["model"]
    assert (folder / "chat_template.jinja").read_text() == made_again["TEMPLATE"]
    assert (folder / "tokenizer.json").stat().st_size < 300_000
