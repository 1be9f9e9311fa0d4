"""The moments of a training step that can be its peak, each with its parts in bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from neox_train.config.stages import FINAL_NORM, OUTPUT
from neox_train.memory.activations import (
    count_activations,
    count_backward_temporaries,
    count_embedding,
    count_final_norm,
    count_hidden,
    count_live,
    count_recomputed,
    count_waiting,
)
from neox_train.memory.gradients import GradientBytes, count_gradients
from neox_train.memory.groups import count_first_parameters, list_groups
from neox_train.memory.loss import count_logit_gradient, count_loss
from neox_train.memory.plan import RankPlan
from neox_train.memory.states import StaticBytes, choose_wrapper, count_static, count_weights_at_start
from neox_train.memory.transformer_engine import count_fp8_weights
from neox_train.memory.workspaces import count_workspaces

PARTS = (
    "weights",
    "master_weights",
    "optimizer_states",
    "gradients",
    "fp8_weights",
    "activations",
    "logits_and_loss",
    "communication",
    "optimizer_step",
    "workspaces",
)
"""Parts made of tensors, in the order they are shown."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One moment of a step: ``parts`` holds every name of PARTS, in bytes."""

    name: str
    parts: dict[str, int]
    backward: int = 0
    """Bytes of them that the thread of the backward pass allocated."""

    @property
    def total(self) -> int:
        """Bytes of all tensors at this moment."""
        return sum(self.parts.values())


def list_phases(plan: RankPlan) -> list[Phase]:
    """Every candidate for the peak, in the order of a training."""
    static, gradients = count_static(plan), count_gradients(plan)
    steps = [*_list_passes(plan, static, gradients), *_list_updates(plan, static, gradients)]
    kept = count_workspaces(plan)
    steps = [replace(phase, parts={**phase.parts, "workspaces": kept}) for phase in steps]
    return [*_list_starts(plan, static), *steps]


def _list_starts(plan: RankPlan, static: StaticBytes) -> list[Phase]:
    """Before the first step: flat masters are filled from fp32 parameters, and neither gradients nor states exist.

    DeepSpeed's wrappers get the whole model on the GPU, in fp32 unless it is moved after its cast.
    """
    if choose_wrapper(plan) != "flat":
        if plan.device == "cpu":
            return []
        is_narrow = plan.zero_stage == 3 or plan.offloads_optimizer
        whole = sum(group.count for group in list_groups(plan))
        return [Phase("start", dict.fromkeys(PARTS, 0) | {"weights": (plan.weight_bytes if is_narrow else 4) * whole})]
    parts = dict.fromkeys(PARTS, 0) | {
        "weights": count_weights_at_start(plan),
        "master_weights": static.master_weights,
    }
    return [Phase("start", parts)]


def _list_passes(plan: RankPlan, static: StaticBytes, gradients: GradientBytes) -> list[Phase]:
    """Forward and backward: the loss, then layers whose activations go while their gradients come."""
    saved, waiting = count_activations(plan), count_waiting(plan)
    makes_logits = OUTPUT in plan.links
    final_norm = count_final_norm(plan) if FINAL_NORM in plan.links else 0
    recomputed, temporaries = count_recomputed(plan), count_backward_temporaries(plan)
    carried, gathered = gradients.carried, _count_live_weights(plan)
    carried_buffers, buffers = gradients.carried_buffers + gathered, gradients.produced_buffers + gathered
    layers = plan.architecture.num_layers
    recomputed_layers = min(plan.checkpoint_layers, layers)
    fp8 = count_fp8_weights(plan, 0 if recomputed_layers else layers - 2 * plan.edge_layers)
    last, first = count_fp8_weights(plan, recomputed_layers), count_fp8_weights(plan, max(1, recomputed_layers))
    output = max(carried, _count_output_gradient(plan, gradients))
    below = max(carried, _count_gradients_above_first(plan, gradients))
    return [
        _phase(
            "loss",
            static,
            gradients=carried,
            fp8_weights=fp8,
            activations=saved + waiting,
            logits=count_loss(plan) if makes_logits else 0,
            communication=carried_buffers,
            backward=carried,
        ),
        _phase(
            "backward, output matrix",
            static,
            gradients=output,
            fp8_weights=fp8,
            activations=saved + waiting,
            logits=count_logit_gradient(plan) if makes_logits else 0,
            communication=carried_buffers,
            backward=output,
        ),
        _phase(
            "backward, last layer",
            static,
            gradients=output,
            fp8_weights=fp8 + last,
            activations=saved + waiting - final_norm + recomputed + temporaries,
            communication=buffers,
            backward=output + recomputed + temporaries,
        ),
        _phase(
            "backward, first layer",
            static,
            gradients=below,
            fp8_weights=first,
            activations=waiting + count_embedding(plan) + count_live(plan) + temporaries,
            communication=buffers,
            backward=below + recomputed + temporaries,
        ),
        _phase(
            "backward, embedding",
            static,
            gradients=gradients.produced,
            activations=waiting + count_embedding(plan) + count_hidden(plan),
            communication=buffers,
            backward=gradients.produced + count_hidden(plan),
        ),
    ]


def _list_updates(plan: RankPlan, static: StaticBytes, gradients: GradientBytes) -> list[Phase]:
    """Reduction, step and gathering, where no activation is left."""
    # ZeRO moves gradients into buffers of its own; elsewhere they stay where the backward pass put them.
    moved = choose_wrapper(plan) in ("flat", "zero12", "zero3")
    return [
        _phase(
            "gradient reduction",
            static,
            gradients=gradients.reduced,
            communication=gradients.reduced_buffers + _count_live_weights(plan),
            backward=0 if moved else gradients.reduced,
        ),
        _phase(
            "optimizer step",
            static,
            gradients=gradients.stepped,
            step=gradients.step_temporaries,
            backward=0 if moved else gradients.stepped,
        ),
        _phase("weight gathering", static, communication=_count_gather(plan)),
    ]


def _phase(
    name: str,
    static: StaticBytes,
    *,
    gradients: int = 0,
    fp8_weights: int = 0,
    activations: int = 0,
    logits: int = 0,
    communication: int = 0,
    step: int = 0,
    backward: int = 0,
) -> Phase:
    values = (
        static.weights,
        static.master_weights,
        static.optimizer_states,
        static.gradients + gradients,
        fp8_weights,
        activations,
        logits,
        static.communication + communication,
        step,
    )
    return Phase(name, dict(zip(PARTS, (*values, 0), strict=True)), backward)


def _count_output_gradient(plan: RankPlan, gradients: GradientBytes) -> int:
    a = plan.architecture
    if OUTPUT not in plan.links:
        return 0
    return min(gradients.produced, plan.weight_bytes * a.padded_vocab_size // plan.tensor_parallel_size * a.hidden_size)


def _count_gradients_above_first(plan: RankPlan, gradients: GradientBytes) -> int:
    """Bytes of gradients that exist before the first layer adds its own and the embedding's."""
    first = count_first_parameters(plan.architecture, plan.links, plan.tensor_parallel_size)
    return max(0, gradients.produced - plan.weight_bytes * first)


def _count_live_weights(plan: RankPlan) -> int:
    """Weights that ZeRO 3 has gathered at most: all it cuts, up to ``stage3_max_live_parameters`` elements.

    An upper bound: DeepSpeed lets go of a parameter sooner where its next use is far. A single replica has them all
    where they are, unless they are in the host's memory.
    """
    moves = plan.data_parallel_size > 1 or (plan.offloads_weights and plan.device == "cuda")
    if choose_wrapper(plan) != "zero3" or not moves:
        return 0
    cut = sum(size for group in list_groups(plan) for size in group.sizes if size > plan.persistence_threshold)
    return plan.weight_bytes * min(cut, plan.max_live_parameters)


def _count_gather(plan: RankPlan) -> int:
    """gloo gathers the updated weights of a group into a second flat tensor; NCCL gathers in place."""
    sharded = choose_wrapper(plan) in ("bf16", "zero12")
    if plan.device == "cuda" or not sharded or plan.data_parallel_size == 1:
        return 0
    return plan.weight_bytes * max(group.padded for group in list_groups(plan))
