"""Writes a random Llama of 5 M parameters with a byte-level tokenizer of 4,096 and a chat template,
in the form that engines load. Run in the engine's environment: `python tiny_model.py FOLDER`.

The same bytes every time: the vocabulary is learned from the standard library's sources.
"""

from __future__ import annotations

import json
import sys
import sysconfig
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL = ["<|begin|>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "<|tool|>"]
VOCABULARY = 4096
HIDDEN, LAYERS, INNER = 256, 4, 704
HEADS, KV_HEADS, HEAD = 4, 2, 64
CONTEXT = 8192
TEMPLATE = (
    "{{ '<|begin|>' }}{% for m in messages %}"
    "{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def tokenizer() -> Tokenizer:
    """Byte-level BPE: every text has tokens, and they give it back."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    sources = sorted(map(str, Path(sysconfig.get_path("stdlib")).glob("*.py")))
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train(sources, trainer)
    return made


def weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Tensors by name, float32. No special token is ever the likeliest: its logit is always 0."""

    def drawn(rows: int, columns: int, scale: float = 0.05) -> np.ndarray:
        return rng.normal(0, scale, (rows, columns)).astype(np.float32)

    head = drawn(VOCABULARY, HIDDEN)
    head[: len(SPECIAL)] = 0
    one = np.ones(HIDDEN, np.float32)
    tensors = {
        "model.embed_tokens.weight": drawn(VOCABULARY, HIDDEN, 1.0),
        "model.norm.weight": one,
        "lm_head.weight": head,
    }
    for layer in range(LAYERS):
        name = f"model.layers.{layer}"
        tensors |= {
            f"{name}.input_layernorm.weight": one,
            f"{name}.post_attention_layernorm.weight": one,
            f"{name}.self_attn.q_proj.weight": drawn(HEADS * HEAD, HIDDEN),
            f"{name}.self_attn.k_proj.weight": drawn(KV_HEADS * HEAD, HIDDEN),
            f"{name}.self_attn.v_proj.weight": drawn(KV_HEADS * HEAD, HIDDEN),
            f"{name}.self_attn.o_proj.weight": drawn(HIDDEN, HEADS * HEAD),
            f"{name}.mlp.gate_proj.weight": drawn(INNER, HIDDEN),
            f"{name}.mlp.up_proj.weight": drawn(INNER, HIDDEN),
            f"{name}.mlp.down_proj.weight": drawn(HIDDEN, INNER),
        }
    return tensors


CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
}
TOKENIZER = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": SPECIAL[0],
    "eos_token": SPECIAL[1],
    "pad_token": SPECIAL[1],
    "model_max_length": CONTEXT,
    "chat_template": TEMPLATE,
}


def write_texts(folder: Path, made: Tokenizer) -> None:
    """All files of the model but its weights."""
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    for name, content in (("config", CONFIG), ("tokenizer_config", TOKENIZER)):
        (folder / f"{name}.json").write_text(json.dumps(content, indent=1))


def write(folder: Path) -> None:
    """All files of the model."""
    # Only engines' environments have it.
    from safetensors.numpy import save_file

    write_texts(folder, tokenizer())
    tensors = weights(np.random.default_rng(0))
    save_file(tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})


if __name__ == "__main__":
    write(Path(sys.argv[1]))
