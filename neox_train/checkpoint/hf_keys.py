"""The table between canonical parameters and the weights of Hugging Face's classes, both ways.

Only architectures that ``choose_family`` accepts have a table; every row is exact, no value is rounded or mixed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch

from neox_train.checkpoint.hf_config import choose_family
from neox_train.checkpoint.mup_folding import fold_mup
from neox_train.config.architecture import Architecture
from neox_train.config.parameters import list_parameters

Kind = Literal["same", "repeat", "query_key_value", "gate_up", "constant"]


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyRow:
    """One canonical tensor and the Hugging Face tensors that hold it."""

    canonical: str | None
    """None for a tensor the class wants and the architecture lacks: a bias of 0, a norm weight of 1."""
    hf: tuple[str, ...]
    kind: Kind
    """``repeat`` stores one tensor under several names, ``query_key_value`` and ``gate_up`` cut it by rows."""
    shape: tuple[int, ...]
    """Shape of the canonical tensor without vocabulary padding."""
    fill: float = 0.0
    """Value of a ``constant``."""

    @property
    def count(self) -> int:
        """Elements over all of the Hugging Face tensors."""
        return math.prod(self.shape) * (len(self.hf) if self.kind == "repeat" else 1)


def list_key_rows(architecture: Architecture) -> list[KeyRow]:
    """Every Hugging Face tensor of the architecture, in the canonical order."""
    if choose_family(architecture) in ("llama", "mistral"):
        return [
            _llama_row(p.name, _true_shape(p.shape, p.is_vocabulary, architecture))
            for p in list_parameters(architecture)
        ]
    rows = []
    for p in list_parameters(architecture):
        rows += _neox_rows(p.name, _true_shape(p.shape, p.is_vocabulary, architecture), architecture)
    return rows + _neox_constants(architecture)


def to_hf(row: KeyRow, weights: Mapping[str, torch.Tensor], architecture: Architecture) -> dict[str, torch.Tensor]:
    """The Hugging Face tensors of one row, cut from canonical ``weights`` (vocabulary padding, if any, is dropped)."""
    if row.canonical is None:
        return {name: torch.full(row.shape, row.fill) for name in row.hf}
    tensor = fold_mup(row.canonical, weights[row.canonical], architecture)
    if row.shape and tensor.shape[0] > row.shape[0]:
        tensor = tensor[: row.shape[0]]
    if tuple(tensor.shape) != row.shape:
        raise ValueError(f"{row.canonical} has shape {list(tensor.shape)}, the architecture says {list(row.shape)}")
    if row.kind == "query_key_value":
        return dict(zip(row.hf, _split_groups(tensor, architecture), strict=True))
    if row.kind == "gate_up":
        return dict(zip(row.hf, tensor.chunk(2), strict=True))
    return dict.fromkeys(row.hf, tensor)


def from_hf(row: KeyRow, tensors: Mapping[str, torch.Tensor], architecture: Architecture) -> torch.Tensor | None:
    """The canonical tensor of one row; None for a constant.

    Raises ValueError when the tensors of a ``repeat`` or ``constant`` row hold anything the architecture cannot.
    """
    parts = [tensors[name] for name in row.hf]
    if row.kind == "constant":
        if any(bool((part != row.fill).any()) for part in parts):
            raise ValueError(f"{row.hf[0]} is not {row.fill:g} everywhere, but the architecture has no such parameter")
        return None
    if row.kind == "repeat" and not all(torch.equal(part, parts[0]) for part in parts):
        raise ValueError(f"{' and '.join(row.hf)} differ, but the architecture ties them")
    if row.kind == "query_key_value":
        return _join_groups(parts, architecture)
    return torch.cat(parts) if row.kind == "gate_up" else parts[0]


def _true_shape(shape: tuple[int, ...], is_vocabulary: bool, a: Architecture) -> tuple[int, ...]:
    return (a.vocab_size, *shape[1:]) if is_vocabulary else shape


def _split_groups(tensor: torch.Tensor, a: Architecture) -> tuple[torch.Tensor, ...]:
    """Rows ordered by key-value group -> all queries, all keys, all values."""
    per_group = a.num_attention_heads // a.num_kv_heads
    groups = tensor.unflatten(0, (a.num_kv_heads, per_group + 2, a.head_dim))
    return tuple(part.flatten(0, 2) for part in groups.split([per_group, 1, 1], dim=1))


def _join_groups(parts: list[torch.Tensor], a: Architecture) -> torch.Tensor:
    grouped = [part.unflatten(0, (a.num_kv_heads, -1, a.head_dim)) for part in parts]
    return torch.cat(grouped, dim=1).flatten(0, 2)


def _neox_rows(name: str, shape: tuple[int, ...], a: Architecture) -> list[KeyRow]:
    top = {
        "word_embeddings.weight": "gpt_neox.embed_in.weight",
        # Today's transformers calls it lm_head and renames this one while it reads; older releases know only this one.
        "output.weight": "embed_out.weight",
    }
    if name in top:
        return [KeyRow(canonical=name, hf=(top[name],), kind="same", shape=shape)]
    if name.startswith("final_norm."):
        hf = name.replace("final_norm.", "gpt_neox.final_layer_norm.")
        return [KeyRow(canonical=name, hf=(hf,), kind="same", shape=shape)]
    hf = "gpt_neox." + name.replace("mlp.linear1.", "mlp.dense_h_to_4h.").replace("mlp.linear2.", "mlp.dense_4h_to_h.")
    if a.residual == "parallel_tied" and ".input_layernorm." in name:
        both = (hf, hf.replace(".input_layernorm.", ".post_attention_layernorm."))
        return [KeyRow(canonical=name, hf=both, kind="repeat", shape=shape)]
    return [KeyRow(canonical=name, hf=(hf,), kind="same", shape=shape)]


def _neox_constants(a: Architecture) -> list[KeyRow]:
    """Tensors that GPTNeoXForCausalLM always has."""
    width, wanted = (a.hidden_size,), []
    for layer in (f"gpt_neox.layers.{index}." for index in range(a.num_layers)):
        if not a.mlp_bias:
            wanted += [
                (layer + "mlp.dense_h_to_4h.bias", (a.ffn_width,), 0.0),
                (layer + "mlp.dense_4h_to_h.bias", width, 0.0),
            ]
        if a.norm == "non_parametric_layernorm":
            for norm in ("input_layernorm", "post_attention_layernorm"):
                wanted += [(f"{layer}{norm}.weight", width, 1.0), (f"{layer}{norm}.bias", width, 0.0)]
    if a.norm == "non_parametric_layernorm":
        wanted += [("gpt_neox.final_layer_norm.weight", width, 1.0), ("gpt_neox.final_layer_norm.bias", width, 0.0)]
    return [KeyRow(canonical=None, hf=(name,), kind="constant", shape=shape, fill=fill) for name, shape, fill in wanted]


def _llama_row(name: str, shape: tuple[int, ...]) -> KeyRow:
    top = {
        "word_embeddings.weight": "model.embed_tokens.weight",
        "final_norm.weight": "model.norm.weight",
        "output.weight": "lm_head.weight",
    }
    if name in top:
        return KeyRow(canonical=name, hf=(top[name],), kind="same", shape=shape)
    layer, _, rest = name.partition(".attention." if ".attention." in name else ".mlp.")
    module, _, leaf = rest.partition(".")
    if module == "query_key_value":
        hf = tuple(f"model.{layer}.self_attn.{part}_proj.{leaf}" for part in "qkv")
        return KeyRow(canonical=name, hf=hf, kind="query_key_value", shape=shape)
    if module == "linear1":
        hf = (f"model.{layer}.mlp.gate_proj.{leaf}", f"model.{layer}.mlp.up_proj.{leaf}")
        return KeyRow(canonical=name, hf=hf, kind="gate_up", shape=shape)
    single = {"dense": f"model.{layer}.self_attn.o_proj.{leaf}", "linear2": f"model.{layer}.mlp.down_proj.{leaf}"}
    return KeyRow(canonical=name, hf=(single.get(module, f"model.{name}"),), kind="same", shape=shape)
