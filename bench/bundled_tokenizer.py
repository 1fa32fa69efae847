"""Makes the tokenizer that comes with the package: a byte-level BPE trained on text of our own.

The text is drawn with a fixed seed from the package's own words and from lines shaped like code, so
the same versions give the same file. Nothing is fetched.

    python bench/bundled_tokenizer.py [FOLDER]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from inferometer.workload.lexicon import PLAIN

FOLDER = Path(__file__).parents[1] / "src/inferometer/workload/data/tokenizer"
VOCABULARY = 4096
SPECIAL = ("<|begin|>", "<|turn|>", "<|end|>")
TEMPLATE = """\
{{- '<|begin|>' }}
{%- for message in messages %}
    {{- '<|turn|>' + message.role + '\\n' + message.content + '<|end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|turn|>assistant\\n' }}
{%- endif %}
"""
LINES = 20_000


def text() -> Iterator[str]:
    """Prose, and lines as programs have them."""
    random, words = Random(1), PLAIN.words
    for _ in range(LINES):
        first, second, third, *rest = random.choices(words, k=12)
        number = random.randrange(1000)
        yield " ".join([first, second, third, *rest]) + "."
        yield f"    {first}_{second} = {third}.{rest[0]}({rest[1]}, {number})\n"
        yield f"def {first}_{second}(self, {third}: int) -> str:\n    return {rest[0]}[{number}]\n"
        yield f'{{"{first}": {number}, "{second}": "{third} {rest[0]}"}}\n'


def trained() -> Tokenizer:
    """A tokenizer of `VOCABULARY` tokens, the same every time."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(text(), trainer)
    return tokenizer


def main(folder: Path) -> None:
    """Write `tokenizer.json` and `chat_template.jinja`."""
    folder.mkdir(parents=True, exist_ok=True)
    trained().save(str(folder / "tokenizer.json"), pretty=False)
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    main(parser.parse_args().folder)
