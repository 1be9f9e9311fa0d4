"""Single changes that lower a rank's memory, each with its strengths, and the keys that make them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from neox_train.config.cluster import Cluster
from neox_train.memory.gradients import count_bucket_bytes
from neox_train.memory.plan import RankPlan
from neox_train.memory.states import choose_wrapper

_SMALL_BUCKET_ELEMENTS = 50_000_000
_MOST_NODES = 64
_SHORTEST_SEQUENCE = 128


@dataclass(frozen=True, slots=True)
class Change:
    """One change at one strength: words, keys, and the plan it leads to."""

    words: str
    keys: dict[str, Any]
    apply: Callable[[RankPlan], RankPlan]


def list_changes(plan: RankPlan, cluster: Cluster, stages: int = 1) -> list[list[Change]]:
    """Kinds of change that apply, in the order of what they cost the user; each lists its strengths, gentlest first.

    ``stages`` is the number of pipeline stages of the plan's run. All keep the global batch, but for more nodes than it
    has sequences, which say so.
    """
    kinds = [
        _shrink_bucket(plan),
        _halve_micro_batch(plan),
        _recompute_activations(plan),
        _raise_zero_stage(plan, stages),
        _use_bf16(plan),
        _shrink_states(plan, stages),
        _add_nodes(plan, cluster, stages),
        _shorten_sequence(plan),
    ]
    return [kind for kind in kinds if kind]


def list_smaller_models(plan: RankPlan, stages: int = 1) -> list[Change]:
    """Fewer layers, the most of them first: for runs that no other change brings onto the card.

    None for a pipeline, whose stages share layers out anew, nor where the kinds of attention are listed layer by layer.
    """
    layers = plan.architecture.num_layers
    if stages > 1 or len(set(plan.architecture.attention_layers)) > 1:
        return []
    shares = (0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125)
    counts = {round(share * layers) for share in shares} - {0, layers}
    return [_set_layers(count) for count in sorted(counts, reverse=True)]


def _set_layers(count: int) -> Change:
    def cut(plan: RankPlan) -> RankPlan:
        kinds = plan.architecture.attention_layers[:count]
        return replace(plan, architecture=replace(plan.architecture, num_layers=count, attention_layers=kinds))

    return Change(f"a model of {count} layers", {"num_layers": count}, cut)


def _shrink_bucket(plan: RankPlan) -> list[Change]:
    if plan.zero_stage == 0 or choose_wrapper(plan) == "bf16" or plan.device == "cpu":
        return []
    smaller = replace(plan, reduce_bucket_elements=_SMALL_BUCKET_ELEMENTS)
    if count_bucket_bytes(smaller) >= count_bucket_bytes(plan):
        return []
    return [
        Change(
            "a smaller reduction bucket",
            {"zero_optimization.reduce_bucket_size": _SMALL_BUCKET_ELEMENTS},
            lambda p: replace(p, reduce_bucket_elements=_SMALL_BUCKET_ELEMENTS),
        )
    ]


def _halve_micro_batch(plan: RankPlan) -> list[Change]:
    sizes = [size for size in range(plan.micro_batch - 1, 0, -1) if plan.micro_batch % size == 0]
    return [_set_micro_batch(plan, size) for size in sizes]


def _set_micro_batch(plan: RankPlan, size: int) -> Change:
    factor = plan.micro_batch // size
    return Change(
        f"micro-batch {size} with {factor} times the gradient accumulation steps",
        {"train_micro_batch_size_per_gpu": size},
        lambda p: _divide_micro_batch(p, factor),
    )


def _divide_micro_batch(plan: RankPlan, factor: int) -> RankPlan:
    """Micro-batches ``factor`` times smaller, or of one sequence where they are smaller already."""
    size = plan.micro_batch // factor if plan.micro_batch % factor == 0 else 1
    return replace(plan, micro_batch=size, accumulation_steps=plan.accumulation_steps * plan.micro_batch // size)


def _recompute_activations(plan: RankPlan) -> list[Change]:
    if plan.checkpoint_layers == 1:
        return []
    return [
        Change(
            "activation checkpointing of every layer",
            {"checkpoint_activations": True, "checkpoint_num_layers": 1},
            lambda p: replace(p, checkpoint_layers=1),
        )
    ]


def _raise_zero_stage(plan: RankPlan, stages: int) -> list[Change]:
    """Stages that training supports here; with one replica they only help together with more nodes."""
    if plan.optimizer == "one_bit" or plan.compression != "none":
        return []
    highest = 3
    by_te = plan.te_attention or plan.te_mlp or plan.te_columns or plan.te_rows
    if plan.tensor_parallel_size > 1 or by_te or plan.keeps_products or plan.optimizer == "muon":
        highest = 2
    if stages > 1:
        # A pipeline's gradients stay whole until its last micro-batch.
        highest = 1
    return [_set_zero_stage(stage) for stage in range(plan.zero_stage + 1, highest + 1)]


def _set_zero_stage(stage: int) -> Change:
    return Change(f"ZeRO stage {stage}", {"zero_optimization.stage": stage}, lambda p: _reformat(p, zero_stage=stage))


def _reformat(plan: RankPlan, **changes: Any) -> RankPlan:
    """The plan after ``changes``: the format that bf16 gradients then add up in, flat masters where they are built."""
    changed = replace(plan, **changes)
    if changed.zero_stage == 3:
        # Its weights come and go: neither layers are compiled nor logits made in chunks.
        changed = replace(changed, compiled_blocks=False, loss_chunk_tokens=0)
    if changed.precision != "bfloat16":
        return changed
    is_flat = changed.zero_stage < 2 and (plan.flat_masters or _becomes_flat(plan, changed))
    return replace(changed, accumulation_bytes=4, communication_bytes=2, flat_masters=is_flat)


def _becomes_flat(plan: RankPlan, changed: RankPlan) -> bool:
    """Whether bf16 in place of fp32 brings flat masters by default: on a GPU, with Adam, nothing cut."""
    whole = changed.tensor_parallel_size == 1 and len(changed.links) == 3
    is_adam = changed.optimizer in ("adam", "adam_8bit")
    return plan.precision != "bfloat16" and changed.device == "cuda" and whole and is_adam


def _use_bf16(plan: RankPlan) -> list[Change]:
    if plan.precision != "fp32":
        return []
    return [
        Change(
            "bf16 weights and activations",
            {"precision": "bfloat16"},
            lambda p: _reformat(p, precision="bfloat16"),
        )
    ]


def _shrink_states(plan: RankPlan, stages: int) -> list[Change]:
    """8-bit states; on a GPU states in host memory too, which are slower and do not go with the former."""
    if plan.optimizer != "adam" or plan.offloads_optimizer:
        return []
    changes = [Change("8-bit Adam states", {"use_bnb_optimizer": True}, lambda p: replace(p, optimizer="adam_8bit"))]
    by_te = plan.te_attention or plan.te_mlp or plan.te_columns or plan.te_rows
    if plan.device == "cuda" and stages == 1 and not by_te and plan.compression == "none":
        keys = {"zero_optimization.stage": 2, "zero_optimization.offload_optimizer": {"device": "cpu"}}
        changes.append(Change("optimizer states in host memory (ZeRO-Offload)", keys, _offload_states))
    return changes


def _offload_states(plan: RankPlan) -> RankPlan:
    changed = _reformat(plan, zero_stage=max(2, plan.zero_stage), flat_masters=False)
    return replace(changed, offloads_optimizer=True, pins_host_memory=True, flat_masters=False)


def _add_nodes(plan: RankPlan, cluster: Cluster, stages: int) -> list[Change]:
    if cluster.executor == "local":
        # That machine is all there is.
        return []
    ranks = plan.data_parallel_size * plan.tensor_parallel_size * stages
    nodes = max(1, ranks // cluster.processes_per_node)
    changes = []
    factor = 2
    while nodes * factor <= _MOST_NODES:
        changes.append(_set_nodes(plan, nodes, factor))
        factor *= 2
    return changes


def _set_nodes(plan: RankPlan, nodes: int, factor: int) -> Change:
    batch = _spread(plan, factor).global_batch
    grown = "" if batch == plan.global_batch else f" (global batch {batch} instead of {plan.global_batch})"
    return Change(f"{nodes * factor} nodes{grown}", {"nodes": nodes * factor}, lambda p: _spread(p, factor))


def _spread(plan: RankPlan, factor: int) -> RankPlan:
    """The same sequences over ``factor`` times the ranks, at least one sequence each."""
    sequences = max(1, plan.micro_batch * plan.accumulation_steps // factor)
    size = min(plan.micro_batch, sequences)
    while sequences % size:
        size -= 1
    return replace(
        plan,
        data_parallel_size=plan.data_parallel_size * factor,
        micro_batch=size,
        accumulation_steps=sequences // size,
    )


def _shorten_sequence(plan: RankPlan) -> list[Change]:
    changes = []
    length = plan.architecture.seq_length // 2
    while length >= _SHORTEST_SEQUENCE:
        changes.append(_set_length(length))
        length //= 2
    return changes


def _set_length(length: int) -> Change:
    return Change(
        f"sequences of {length} tokens",
        {"seq_length": length},
        lambda p: replace(p, architecture=replace(p.architecture, seq_length=length)),
    )
