"""Small architectures for tests, and models filled with random values."""

from __future__ import annotations

from typing import Any

import torch

from neox_train.config.architecture import Architecture
from neox_train.model.gpt_neox import GPTNeoX


def make_architecture(**changes: Any) -> Architecture:
    """A two-layer GPT-NeoX of width 64 with a vocabulary padded from 90 to 96; ``changes`` replace its fields."""
    fields: dict[str, Any] = {
        "num_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "ffn_width": 80,
        "seq_length": 32,
        "max_position_embeddings": 32,
        "vocab_size": 90,
        "padded_vocab_size": 96,
        "residual": "serial",
        "tied_embeddings": False,
        "norm": "layernorm",
        "norm_epsilon": 1e-5,
        "activation": "gelu",
        "pos_emb": "rotary",
        "rotary_pct": 0.5,
        "rotary_emb_base": 10000,
        "attention_bias": True,
        "mlp_bias": True,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "init_method": "normal",
        "output_layer_init_method": "scaled_normal",
        "init_method_std": 0.02,
    } | changes
    fields.setdefault("num_kv_heads", fields["num_attention_heads"])
    fields.setdefault("attention_layers", ("global",) * fields["num_layers"])
    return Architecture(**fields)


def make_random_model(architecture: Architecture, *, seed: int = 7, **options: Any) -> GPTNeoX:
    """A model whose every parameter, biases and norms too, is random: zeros would hide misplaced tensors."""
    model = GPTNeoX(architecture, **options)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 0.5 if parameter.dim() == 1 else 0.15
            parameter.normal_(1.0 if "norm.weight" in name else 0.0, scale, generator=generator)
            if name in ("word_embeddings.weight", "output.weight"):
                parameter[architecture.vocab_size :] = 0.0
    return model.eval()


def make_tokens(architecture: Architecture, *, batch: int = 2, length: int = 24, seed: int = 3) -> torch.Tensor:
    """Random token ids [batch, length] below the true vocabulary."""
    return torch.randint(architecture.vocab_size, (batch, length), generator=torch.Generator().manual_seed(seed))
