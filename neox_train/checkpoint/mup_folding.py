"""muP's factors multiplied into the weights, because no Hugging Face class here has them."""

from __future__ import annotations

import torch

from neox_train.config.architecture import Architecture


def fold_mup(name: str, tensor: torch.Tensor, architecture: Architecture) -> torch.Tensor:
    """The tensor ``name`` as a model without factors needs it: the same logits, up to rounding."""
    a = architecture
    if a.mup_width is None:
        return tensor
    if name in ("word_embeddings.weight", "position_embeddings.weight"):
        return tensor * a.mup_embedding_multiplier
    if name == "output.weight":
        return tensor * a.output_multiplier
    if ".query_key_value." in name:
        # Queries alone: the class divides their products with the keys by the root of the head's width.
        folded = tensor.clone()
        groups = folded.view(a.num_kv_heads, -1, a.head_dim, *tensor.shape[1:])
        groups[:, :-2] *= a.attention_scale * a.head_dim**0.5
        return folded
    return tensor
