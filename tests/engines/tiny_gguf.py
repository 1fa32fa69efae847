"""Writes the tiny model of `tiny_model.py` as one GGUF file, the form that llama.cpp loads.

`python tiny_gguf.py FOLDER`: `model.gguf` beside the tokenizer's own files. GGUF 3: a header,
keys with typed values, a directory of tensors, and their bytes, each at a multiple of 32.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tiny_model import (
    CONFIG,
    CONTEXT,
    HEAD,
    HEADS,
    HIDDEN,
    INNER,
    KV_HEADS,
    LAYERS,
    SPECIAL,
    TEMPLATE,
    VOCABULARY,
    tokenizer,
    weights,
    write_texts,
)

ALIGNMENT = 32
NORMAL, CONTROL = 1, 3
NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
WHOLE = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
Value = str | bool | int | float | list[str] | list[int]


def text(value: str) -> bytes:
    """Its length and its bytes."""
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def typed(value: Value) -> bytes:
    """A value behind its type."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    head = struct.pack("<I", 9)
    if isinstance(value[0], int):
        return head + struct.pack(f"<IQ{len(value)}i", 5, len(value), *value)
    return head + struct.pack("<IQ", 8, len(value)) + b"".join(text(str(word)) for word in value)


def keys(vocabulary: dict[str, int], merges: list[str]) -> dict[str, Value]:
    """What the file says of its model."""
    tokens = sorted(vocabulary, key=lambda word: vocabulary[word])
    return {
        "general.architecture": "llama",
        "general.name": "tiny",
        "general.alignment": ALIGNMENT,
        "llama.context_length": CONTEXT,
        "llama.embedding_length": HIDDEN,
        "llama.block_count": LAYERS,
        "llama.feed_forward_length": INNER,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.attention.layer_norm_rms_epsilon": float(str(CONFIG["rms_norm_eps"])),
        "llama.rope.dimension_count": HEAD,
        "llama.rope.freq_base": float(str(CONFIG["rope_theta"])),
        "llama.vocab_size": VOCABULARY,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [CONTROL if t in SPECIAL else NORMAL for t in tokens],
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.padding_token_id": 1,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }


def tensors() -> Iterator[tuple[str, np.ndarray]]:
    """Tensors by llama.cpp's names."""
    for name, tensor in weights(np.random.default_rng(0)).items():
        if name in WHOLE:
            yield WHOLE[name], tensor
        else:
            _, _, layer, rest = name.split(".", 3)
            yield f"blk.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight", tensor


def padded(data: bytes) -> bytes:
    """Up to the next multiple of the alignment."""
    return data + b"\0" * (-len(data) % ALIGNMENT)


def write(folder: Path) -> None:
    """The model's file, and those of its tokenizer for whoever counts tokens."""
    made = tokenizer()
    write_texts(folder, made)
    model = json.loads(made.to_str())["model"]
    merges = [word if isinstance(word, str) else " ".join(word) for word in model["merges"]]
    said = keys(model["vocab"], merges)
    named = list(tensors())
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(named), len(said))
    head += b"".join(text(key) + typed(value) for key, value in said.items())
    bodies = b""
    for name, tensor in named:
        sizes = tensor.shape[::-1]
        head += text(name) + struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
        head += struct.pack("<IQ", 0, len(bodies))
        bodies += padded(tensor.tobytes())
    (folder / "model.gguf").write_bytes(padded(head) + bodies)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
