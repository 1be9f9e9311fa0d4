"""Memory of the host that a rank on a GPU needs: at the start, and while it trains."""

from __future__ import annotations

from neox_train.memory.groups import list_groups
from neox_train.memory.offload import count_offloaded
from neox_train.memory.plan import RankPlan

_MIB = 1 << 20
_FP32 = 4
# Source: peak resident memory (VmHWM) of 26 trainings on one H200, beside the fp32 weights: 1.47 GiB at 125 million
# parameters, 1.72 at 1.3 billion, 1.83 at 2.7 billion.
CUDA_HOST_BYTES = 1880 * _MIB
"""Python, torch with CUDA's libraries, compiled kernels, DeepSpeed."""
_READ_AHEAD = 3
"""Micro-batches: two read ahead, one in use."""
_TOKEN_BYTES = 8


def count_host(plan: RankPlan) -> dict[str, int]:
    """Bytes by part at the larger of two moments: the model drawn in fp32, or training; nothing on a CPU.

    Weights that Transformer Engine's modules hold are drawn on the GPU.
    """
    if plan.device == "cpu":
        return {}
    process = {"process": CUDA_HOST_BYTES}
    drawn = _FP32 * _count_drawn(plan)
    offloaded = count_offloaded(plan)
    running = {
        "offloaded": offloaded.total,
        "rounding": offloaded.rounding if plan.pins_host_memory else 0,
        "kept_inputs": _count_kept_inputs(plan),
        "read_ahead": _READ_AHEAD * plan.micro_batch * (plan.architecture.seq_length + 1) * _TOKEN_BYTES,
        "checkpoint": _FP32 * max(size for group in list_groups(plan) for size in group.sizes),
    }
    if drawn > sum(running.values()):
        return {**process, "initial_weights": drawn}
    return {**process, **{name: size for name, size in running.items() if size}}


def _count_drawn(plan: RankPlan) -> int:
    a = plan.architecture
    if plan.te_attention and plan.te_mlp:
        return (1 if a.tied_embeddings else 2) * a.padded_vocab_size * a.hidden_size // plan.tensor_parallel_size
    return sum(group.count for group in list_groups(plan))


def _count_kept_inputs(plan: RankPlan) -> int:
    """Inputs of recomputed layers, where a GPU keeps them here."""
    if not plan.keeps_inputs_on_host or plan.checkpoint_layers == 0:
        return 0
    chunks = -(-plan.architecture.num_layers // plan.checkpoint_layers)
    return plan.in_flight * chunks * plan.weight_bytes * plan.share_tokens * plan.architecture.hidden_size
