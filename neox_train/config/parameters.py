"""The canonical parameter table: the one list of names, global shapes, shard rules, decay groups and initialisers.

Names do not depend on tensor or pipeline degree, on Transformer Engine or on compilation: the model registers its
parameters under them, the checkpoint stores them, the memory estimate counts them, the export maps them.

The fused query-key-value matrix is ordered by key-value group: for each group its queries, then its key, then its
value. With one key-value head a query head this is GPT-NeoX's per-head order; it cuts cleanly over tensor ranks.
A gated MLP's first matrix holds the gate's rows first, then the up projection's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from neox_train.config.architecture import Architecture

Initialiser = Literal["input", "output", "zeros", "ones"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """One trainable tensor of the model, in its whole (unsharded) form."""

    name: str
    shape: tuple[int, ...]
    shard_dim: int | None
    """Dimension cut over tensor-parallel ranks; None where every rank holds a copy."""
    decays: bool
    """Whether weight decay applies: matrices yes (embeddings too, as GPT-NeoX), biases and norms no."""
    initialiser: Initialiser
    """``input`` is ``init_method``, ``output`` is ``output_layer_init_method``."""
    is_vocabulary: bool = False
    """Whether dimension 0 is the padded vocabulary."""
    shard_parts: int = 1
    """Equal parts along ``shard_dim`` that are each cut by themselves: a gated MLP's gate and up projection."""

    @property
    def is_hidden_matrix(self) -> bool:
        """Whether it is a matrix of a layer: both sides grow with the width."""
        return self.name.startswith("layers.") and len(self.shape) == 2

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def list_parameters(architecture: Architecture) -> list[Parameter]:
    """Every parameter in the order the model registers them: embeddings, layers, final norm, output."""
    a = architecture
    table = [_matrix("word_embeddings.weight", (a.padded_vocab_size, a.hidden_size), 0, is_vocabulary=True)]
    if a.pos_emb == "learned":
        table.append(_matrix("position_embeddings.weight", (a.max_position_embeddings, a.hidden_size), None))
    for layer in range(a.num_layers):
        table += _list_layer(a, f"layers.{layer}.")
    table += _list_norm(a, "final_norm")
    if not a.tied_embeddings:
        table.append(_matrix("output.weight", (a.padded_vocab_size, a.hidden_size), 0, is_vocabulary=True))
    return table


def count_parameters(architecture: Architecture) -> int:
    """Exact number of trainable parameters, vocabulary padding included."""
    return sum(parameter.count for parameter in list_parameters(architecture))


def count_non_embedding_parameters(architecture: Architecture) -> int:
    """Exact number of trainable parameters outside the embedding and output matrices."""
    skipped = ("word_embeddings.", "position_embeddings.", "output.")
    return sum(p.count for p in list_parameters(architecture) if not p.name.startswith(skipped))


def _list_layer(a: Architecture, prefix: str) -> list[Parameter]:
    h, f = a.hidden_size, a.ffn_width
    table = _list_norm(a, prefix + "input_layernorm")
    table.append(_matrix(prefix + "attention.query_key_value.weight", (a.qkv_rows, h), 0))
    if a.attention_bias:
        table.append(_bias(prefix + "attention.query_key_value.bias", a.qkv_rows, 0))
    table.append(_matrix(prefix + "attention.dense.weight", (h, h), 1, initialiser="output"))
    if a.attention_bias:
        table.append(_bias(prefix + "attention.dense.bias", h, None))
    if a.qk_norm:
        table += _list_norm(a, prefix + "attention.qk_layernorm")
    if a.residual != "parallel_tied":
        table += _list_norm(a, prefix + "post_attention_layernorm")
    parts = 2 if a.is_gated else 1
    table.append(_matrix(prefix + "mlp.linear1.weight", (parts * f, h), 0, shard_parts=parts))
    if a.mlp_bias:
        table.append(_bias(prefix + "mlp.linear1.bias", parts * f, 0, shard_parts=parts))
    table.append(_matrix(prefix + "mlp.linear2.weight", (h, f), 1, initialiser="output"))
    if a.mlp_bias:
        table.append(_bias(prefix + "mlp.linear2.bias", h, None))
    return table


def _list_norm(a: Architecture, prefix: str) -> list[Parameter]:
    if a.norm == "non_parametric_layernorm":
        return []
    weight = Parameter(
        name=f"{prefix}.weight", shape=(a.hidden_size,), shard_dim=None, decays=False, initialiser="ones"
    )
    if a.norm in ("rmsnorm", "te_rmsnorm"):
        return [weight]
    return [weight, _bias(f"{prefix}.bias", a.hidden_size, None)]


def _matrix(
    name: str,
    shape: tuple[int, int],
    shard_dim: int | None,
    *,
    initialiser: Initialiser = "input",
    is_vocabulary: bool = False,
    shard_parts: int = 1,
) -> Parameter:
    return Parameter(
        name=name,
        shape=shape,
        shard_dim=shard_dim,
        decays=True,
        initialiser=initialiser,
        is_vocabulary=is_vocabulary,
        shard_parts=shard_parts,
    )


def _bias(name: str, length: int, shard_dim: int | None, *, shard_parts: int = 1) -> Parameter:
    return Parameter(
        name=name,
        shape=(length,),
        shard_dim=shard_dim,
        decays=False,
        initialiser="zeros",
        shard_parts=shard_parts,
    )
