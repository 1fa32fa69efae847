"""Where a tokenizer lies: its `tokenizer.json`, and beside it what names its chat template.

`words` is none at all (a token is a word), `bundled` the small one that comes with the package.
Reads bytes and digests them; what they mean is for `tokenizer_fit`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from inferometer.errors import InputError, Problem

NO_TOKENIZER = "words"
BUNDLED = "bundled"
_BUNDLED_FOLDER = Path(__file__).parent / "data" / "tokenizer"
_BESIDE = ("tokenizer_config.json", "chat_template.jinja")


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """Paths of what is there; a template in a file of its own comes before one of the config."""

    tokenizer: Path
    config: Path | None
    template: Path | None


def tokenizer_files(source: str) -> TokenizerFiles:
    """Of a folder with a `tokenizer.json`, of such a file, or of `bundled`. Raises InputError."""
    path = _BUNDLED_FOLDER if source == BUNDLED else Path(source)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise InputError(
            Problem(
                "no such file; a tokenizer is a folder with a tokenizer.json, that file itself, "
                f"{BUNDLED} or {NO_TOKENIZER}",
                str(file),
            )
        )
    config, template = (file.parent / name for name in _BESIDE)
    return TokenizerFiles(
        file,
        config if config.is_file() else None,
        template if template.is_file() else None,
    )


def tokenizer_digest(source: str) -> str:
    """SHA-256, in hex, over name and bytes of each of the files. Raises InputError."""
    files = tokenizer_files(source)
    digest = hashlib.sha256()
    for role, file in (
        ("tokenizer", files.tokenizer),
        ("config", files.config),
        ("template", files.template),
    ):
        if file is not None:
            data = _bytes(file)
            digest.update(f"{role}\n{len(data)}\n".encode())
            digest.update(data)
    return digest.hexdigest()


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(Problem(error.strerror or "cannot be read", str(file))) from error
