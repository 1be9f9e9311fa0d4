"""Seconds that one rank computes: matrix products, attention, everything bound by memory, the optimizer step."""

from __future__ import annotations

from functools import lru_cache

from neox_train.config.architecture import Architecture
from neox_train.config.parameters import list_parameters
from neox_train.config.stages import EMBEDDING, OUTPUT, owner_of
from neox_train.memory.plan import RankPlan
from neox_train.memory.throughput.rates import HardwareRates

_LOGIT_BYTES = 16
"""Traffic of one logit, both passes: written, read by the loss, its gradient written and read by two products."""
_UPDATE_BYTES = {
    "adam": 28,
    "adam_8bit": 16,
    "cpu_adam": 28,
    "lion": 20,
    "lion_8bit": 14,
    "muon": 20,
    "one_bit": 28,
    "sgd": 12,
    "sgd_momentum": 20,
}
"""Traffic of one parameter's update: gradient read; master weight and states read and written.

Muon's own products are left out: with a long batch they are little beside the step's. So is the packing of 1-bit
optimizers' signs.
"""
_NORM_BYTES = 4
"""Reading one fp32 gradient for the norm that clipping needs."""


def count_layer_weights(plan: RankPlan) -> int:
    """Weights of the plan's layers that every token is multiplied with, on one tensor-parallel rank."""
    a = plan.architecture
    mlp = (3 if a.is_gated else 2) * a.ffn_width * a.hidden_size
    return a.num_layers * (a.qkv_rows * a.hidden_size + a.hidden_size**2 + mlp) // plan.tensor_parallel_size


def count_rank_parameters(plan: RankPlan) -> int:
    """Parameters of one tensor-parallel rank of the plan's stage, before ZeRO cuts them."""
    return _count_held(plan.architecture, plan.links, plan.tensor_parallel_size)


@lru_cache(maxsize=256)
def _count_held(architecture: Architecture, links: frozenset[str], cut: int) -> int:
    held = 0
    for parameter in list_parameters(architecture):
        owner = owner_of(parameter.name)
        if owner.startswith("layers.") or owner in links:
            held += parameter.count // (cut if parameter.shard_dim is not None else 1)
    if architecture.tied_embeddings and OUTPUT in links and EMBEDDING not in links:
        held += architecture.padded_vocab_size * architecture.hidden_size // cut
    return held


def predict_forward(plan: RankPlan, rates: HardwareRates) -> float:
    """Seconds of a micro-batch's forward pass through the layers, without the output matrix."""
    a = plan.architecture
    products = 2 * count_layer_weights(plan) * plan.tokens / rates.matrix_flops
    # Half of the square: the kernels skip what the causal mask hides.
    attention = 2 * a.num_layers * a.seq_length * a.num_attention_heads * a.head_dim * plan.tokens
    traffic = rates.layer_passes / 3 * a.num_layers * a.hidden_size * plan.weight_bytes * plan.share_tokens
    return products + attention / plan.tensor_parallel_size / rates.attention_flops + traffic / rates.memory_bytes


def predict_output(plan: RankPlan, rates: HardwareRates) -> float:
    """Seconds of a micro-batch's logits and loss, both passes; 0 on a stage without the output matrix."""
    if OUTPUT not in plan.links:
        return 0.0
    logits = plan.tokens * plan.architecture.padded_vocab_size / plan.tensor_parallel_size
    return 6 * logits * plan.architecture.hidden_size / rates.matrix_flops + _LOGIT_BYTES * logits / rates.memory_bytes


def predict_update(plan: RankPlan, rates: HardwareRates) -> float:
    """Seconds of clipping and the optimizer step on the parameters that this rank updates."""
    owned = count_rank_parameters(plan) / (plan.data_parallel_size if plan.zero_stage else 1)
    copied = 0 if plan.precision == "fp32" else plan.weight_bytes
    return owned * (_UPDATE_BYTES[plan.optimizer] + _NORM_BYTES + copied) / rates.memory_bytes
