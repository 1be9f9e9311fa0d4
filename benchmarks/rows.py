"""The rows of benchmarks/train_step.py: model sizes, and what each row changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Size:
    """A model, and the batch that it is measured with."""

    num_layers: int
    hidden_size: int
    num_attention_heads: int
    micro_batch: int
    seq_length: int = 2048
    vocab_size: int = 50257


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement: ``peer`` is None for ``neox-train train``, and ``changes`` are its keys."""

    name: str
    size: str
    peer: str | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    fp8: bool = False
    recompute: bool = False
    """Of a peer: full activation checkpointing, layer by layer."""


SIZES = {
    "tiny": Size(num_layers=2, hidden_size=64, num_attention_heads=4, micro_batch=2, seq_length=64, vocab_size=97),
    "125M": Size(num_layers=12, hidden_size=768, num_attention_heads=12, micro_batch=16),
    "410M": Size(num_layers=24, hidden_size=1024, num_attention_heads=16, micro_batch=16),
    "1-3B": Size(num_layers=24, hidden_size=2048, num_attention_heads=16, micro_batch=8),
    "2-7B": Size(num_layers=32, hidden_size=2560, num_attention_heads=32, micro_batch=4),
    "6-7B": Size(num_layers=32, hidden_size=4096, num_attention_heads=32, micro_batch=4),
}

_ENGINE_ONLY = {"torch_compile": False, "flat_master_weights": False, "loss_chunk_tokens": 0}
_TE = {"te_mha": True, "te_layernorm_mlp": True}
_VARIANTS: dict[str, dict[str, Any]] = {
    "bf16": {},
    "bf16-engine-only": _ENGINE_ONLY,
    "bf16-no-compile": {"torch_compile": False},
    "bf16-no-flat": {"flat_master_weights": False},
    "bf16-whole-logits": {"loss_chunk_tokens": 0},
    "bf16-checkpointing": {"checkpoint_activations": True},
    "bf16-selective": {"checkpoint_activations": True, "checkpoint_granularity": "selective"},
    "fp16": {"precision": "fp16"},
    "adam8bit": {"use_bnb_optimizer": True},
    "adam8bit-paged": {"use_bnb_optimizer": True, "bnb_paged": True},
    "te": _TE,
    "fp8-delayed": {**_TE, "te_fp8": True},
    "fp8-current": {**_TE, "te_fp8_recipe": "current"},
}
_PEERS = ("hugging-face", "megatron", "megatron-fp8", "megatron-checkpointing", "te-stack", "te-stack-fp8")


def find_row(name: str) -> Row:
    """The row ``SIZE/VARIANT``, such as ``1-3B/fp8-delayed`` or ``125M/megatron``; KeyError where there is none."""
    size, variant = name.split("/")
    if size not in SIZES:
        raise KeyError(f"size {size}; known: {', '.join(SIZES)}")
    if variant in _PEERS:
        peer = variant.removesuffix("-fp8").removesuffix("-checkpointing")
        is_recomputed = variant.endswith("-checkpointing")
        return Row(name=name, size=size, peer=peer, fp8=variant.endswith("-fp8"), recompute=is_recomputed)
    if variant not in _VARIANTS:
        raise KeyError(f"row {variant}; known: {', '.join((*_VARIANTS, *_PEERS))}")
    return Row(name=name, size=size, changes=_VARIANTS[variant])
