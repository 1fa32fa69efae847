"""Tokenizers of the four common kinds, trained in a second on text of our own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from inferometer.workload.lexicon import PLAIN

KINDS = ("byte-level", "prepended", "metaspace", "unigram", "wordpiece")
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}]\n{{ m['content'] | trim }}"
    "{{ eos_token }}\n{% endfor %}{% if add_generation_prompt %}[assistant]\n{% endif %}"
)
CONFIG = '{"bos_token": {"content": "<s>"}, "eos_token": "</s>"}'


def corpus(lines: int = 1500) -> Iterator[str]:
    """Words with a space before them, without, and joined."""
    random = Random(7)
    for _ in range(lines):
        first, second, third, fourth = random.choices(PLAIN.words, k=4)
        yield f"{first} {second}, {third}_{fourth} = {random.randrange(99)}"
        yield f"({first}) [{second}]\n{third}\n{fourth}"


def made(kind: str) -> Tokenizer:
    """A tokenizer of this kind, special tokens and what it puts around a text included."""
    special = ["<unk>", "<s>", "</s>"]
    if kind == "byte-level":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        bytes_first = trainers.BpeTrainer(
            vocab_size=3000,
            special_tokens=special,
            initial_alphabet=alphabet,
            show_progress=False,
        )
        tokenizer.train_from_iterator(corpus(), bytes_first)
    elif kind == "wordpiece":
        tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        pieces = trainers.WordPieceTrainer(
            vocab_size=3000, special_tokens=special, show_progress=False
        )
        tokenizer.train_from_iterator(corpus(), pieces)
    elif kind == "unigram":
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.Nmt()
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        likely = trainers.UnigramTrainer(
            vocab_size=1200, special_tokens=special, unk_token="<unk>", show_progress=False
        )
        tokenizer.train_from_iterator(corpus(), likely)
    else:
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Metaspace(),
                pre_tokenizers.Punctuation(),
                pre_tokenizers.Split("\n", "isolated"),
            ]
        )
        plain = trainers.BpeTrainer(vocab_size=3000, special_tokens=special, show_progress=False)
        tokenizer.train_from_iterator(corpus(), plain)
        tokenizer.decoder = decoders.Metaspace()
        if kind == "prepended":
            # Nothing parts the text before the merges, which then run across all of it.
            prepend, replace = normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")
            tokenizer.normalizer = normalizers.Sequence([prepend, replace])
            tokenizer.pre_tokenizer = None
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)]
    )
    return tokenizer


def write(kind: str, folder: Path) -> Path:
    """Its files, as a model's repository has them; the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    made(kind).save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    (folder / "tokenizer_config.json").write_text(CONFIG)
    return folder
