"""Seconds that one rank computes: matrix products, attention, everything bound by memory, the optimizer step."""

from __future__ import annotations

from functools import lru_cache

from neox_train.config.architecture import Architecture
from neox_train.config.parameters import list_parameters
from neox_train.config.stages import EMBEDDING, OUTPUT, owner_of
from neox_train.memory.plan import RankPlan
from neox_train.memory.states import choose_wrapper
from neox_train.memory.throughput.rates import HardwareRates
from neox_train.memory.transformer_engine import count_fp8_weights

_LOGIT_BYTES = 16
"""Traffic of one logit, both passes: written, read by the loss, its gradient written and read by two products."""
_UPDATE_BYTES = {
    "adam": 28,
    "adam_8bit": 108,
    "cpu_adam": 28,
    "lion": 20,
    "lion_8bit": 100,
    "muon": 20,
    "one_bit": 28,
    "sgd": 12,
    "sgd_momentum": 20,
}
"""Traffic of one parameter's update: gradient read; master weight and states read and written.

8-bit states take longer than their bytes do, so theirs are the bytes that pass in that time: fitted to 1.3B on one
H200, 26.6 ms more than Adam's; 8-bit Lion, not measured, has one state less. Muon's own products are left out: with a
long batch they are little beside the step's. So is the packing of 1-bit optimizers' signs.
"""
_NORM_BYTES = 4
"""Reading one fp32 gradient for the norm that clipping needs."""
_WRAPPER_BYTES = 150
"""The same for what DeepSpeed's own optimizer wrappers do with a parameter they update, beside the update: fitted to
1.3B in fp16 at ZeRO 1 on one H200, 49 ms more than flat master weights; the other wrappers were not measured."""
_SLOT_BYTES_PER_SECOND = 25e9
"""Between a GPU and its host's memory, over PCIe 4: an assumption, as the next."""
_HOST_BYTES_PER_SECOND = 40e9
"""What one rank's cores move of host memory while they step offloaded states."""
_CAST_BYTES = {"delayed": 4, "current": 6, "blockwise": 6, "mxfp8": 4}
"""Traffic of one number cast to FP8 in both orders: two bytes read, one written in each; two more where its scale is
that of a tensor whose largest number must be found first."""


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


def predict_products(plan: RankPlan, rates: HardwareRates) -> float:
    """Seconds of the layers' matrix products in a micro-batch's forward pass, their share of casts to FP8 with them.

    A cast number is an input or the gradient of an output of a product; weights are cast once a micro-batch.
    """
    weights = count_layer_weights(plan)
    narrow = count_fp8_share(plan) * weights if rates.fp8_flops else 0.0
    seconds = 2 * (weights - narrow) * plan.tokens / rates.matrix_flops
    if plan.fp8 is None or not rates.fp8_flops:
        return seconds
    cast = (plan.tokens * _count_cast_width(plan) + narrow) * _CAST_BYTES[plan.fp8] / rates.memory_bytes
    return seconds + 2 * narrow * plan.tokens / rates.fp8_flops + cast / 3


def count_fp8_share(plan: RankPlan) -> float:
    """Share of the layers' weights that are multiplied in FP8."""
    layers = plan.architecture.num_layers
    if plan.fp8 is None or layers == 0:
        return 0.0
    narrow = count_fp8_weights(plan, max(0, layers - 2 * plan.edge_layers)) / 2
    return min(1.0, narrow / count_layer_weights(plan))


def _count_cast_width(plan: RankPlan) -> float:
    """Numbers cast for each token in all layers, on one tensor-parallel rank."""
    a = plan.architecture
    into_heads, out_of_heads = a.hidden_size + a.qkv_rows, 2 * a.hidden_size
    into_mlp, out_of_mlp = a.hidden_size + (2 if a.is_gated else 1) * a.ffn_width, a.ffn_width + a.hidden_size
    width = into_heads * (plan.te_attention or plan.te_columns) + out_of_heads * (plan.te_attention or plan.te_rows)
    width += into_mlp * (plan.te_mlp or plan.te_columns) + out_of_mlp * (plan.te_mlp or plan.te_rows)
    return max(0, a.num_layers - 2 * plan.edge_layers) * width / plan.tensor_parallel_size


def predict_traffic(plan: RankPlan, rates: HardwareRates) -> float:
    """Seconds of a forward pass's kernels bound by memory: norms, activations, rotation, residual stream."""
    a = plan.architecture
    is_fused = plan.compiled_blocks or plan.te_attention or plan.te_mlp
    passes = rates.layer_passes if is_fused else rates.eager_layer_passes
    return passes / 3 * a.num_layers * a.hidden_size * plan.weight_bytes * plan.share_tokens / rates.memory_bytes


def predict_forward(plan: RankPlan, rates: HardwareRates) -> float:
    """Seconds of a micro-batch's forward pass through the layers, without the output matrix."""
    a = plan.architecture
    # Half of the square: the kernels skip what the causal mask hides.
    attention = 2 * a.num_layers * a.seq_length * a.num_attention_heads * a.head_dim * plan.tokens
    seconds = predict_products(plan, rates) + predict_traffic(plan, rates)
    return seconds + attention / plan.tensor_parallel_size / rates.attention_flops


def predict_recomputation(plan: RankPlan, rates: HardwareRates) -> float:
    """Seconds of a micro-batch's recomputed layers: a forward pass, without products and attention if kept."""
    if plan.checkpoint_layers == 0:
        return 0.0
    return predict_traffic(plan, rates) if plan.keeps_products else predict_forward(plan, rates)


def predict_output(plan: RankPlan, rates: HardwareRates) -> float:
    """Seconds of a micro-batch's logits and loss, both passes; 0 on a stage without the output matrix."""
    if OUTPUT not in plan.links:
        return 0.0
    logits = plan.tokens * plan.architecture.padded_vocab_size / plan.tensor_parallel_size
    return 6 * logits * plan.architecture.hidden_size / rates.matrix_flops + _LOGIT_BYTES * logits / rates.memory_bytes


def predict_update(plan: RankPlan, rates: HardwareRates) -> float:
    """Seconds of clipping and the optimizer step on the parameters that this rank updates."""
    owned = count_rank_parameters(plan) / (plan.data_parallel_size if plan.zero_stage else 1)
    if plan.offloads_optimizer:
        # Gradients go down and weights come up, one after the other, and the host steps between.
        moved = 2 * plan.weight_bytes / _SLOT_BYTES_PER_SECOND
        return owned * (moved + (_UPDATE_BYTES[plan.optimizer] + _NORM_BYTES) / _HOST_BYTES_PER_SECOND)
    copied = 0 if plan.precision == "fp32" else plan.weight_bytes
    wrapped = 0 if choose_wrapper(plan) in ("flat", "none") else _WRAPPER_BYTES
    return owned * (_UPDATE_BYTES[plan.optimizer] + _NORM_BYTES + copied + wrapped) / rates.memory_bytes
