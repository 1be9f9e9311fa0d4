"""The time of one optimizer step, part by part, and what follows from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from neox_train.memory.plan import RankPlan
from neox_train.memory.throughput.collectives import Group, predict_all_reduce, predict_gather, predict_send
from neox_train.memory.throughput.compute import (
    count_rank_parameters,
    predict_forward,
    predict_output,
    predict_recomputation,
    predict_update,
)
from neox_train.memory.throughput.rates import HardwareRates

PARTS = ("compute", "recomputation", "tensor_parallel", "bubble", "data_parallel", "update", "scale")
"""Parts of a step, in the order they are shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTime:
    """Predicted seconds of one optimizer step; its parts add up to ``total``."""

    compute: float
    recomputation: float
    tensor_parallel: float
    bubble: float
    data_parallel: float
    """Collectives of gradients and weights that no computation hides."""
    update: float
    scale: float
    """What grows with the number of nodes: stragglers, a network that others use too."""
    tokens: int
    gpus: int
    calibrated: bool

    @property
    def total(self) -> float:
        """Seconds of a step."""
        return sum(getattr(self, name) for name in PARTS)

    @property
    def tokens_per_second_per_gpu(self) -> float:
        """Predicted throughput."""
        return self.tokens / self.total / self.gpus


def predict_step(stages: Sequence[RankPlan], rates: HardwareRates) -> StepTime | None:
    """Predict from one plan for each pipeline stage; None where the network between nodes is not known.

    The slowest stage sets the pace; one-forward-one-backward idles for ``stages - 1`` micro-batches.
    """
    parts = [_predict_micro_batch(stage, len(stages), rates) for stage in stages]
    slowest = max(range(len(stages)), key=lambda index: sum(parts[index]) + 2 * parts[index][0])
    forward, output, recomputation, tensor = parts[slowest]
    plan = stages[slowest]
    exposed = max(_predict_exposed(stage, 2 * forward + recomputation, rates) for stage in stages)
    if not math.isfinite(exposed + tensor):
        return None
    steps = plan.accumulation_steps
    gpus = plan.data_parallel_size * plan.tensor_parallel_size * len(stages)
    seconds = {
        "compute": steps * (3 * forward + output),
        "recomputation": steps * recomputation,
        "tensor_parallel": steps * tensor,
        "bubble": (len(stages) - 1) * (3 * forward + output + recomputation + tensor),
        "data_parallel": exposed,
        "update": max(predict_update(stage, rates) for stage in stages),
    }
    doublings = math.log2(max(1, gpus / rates.processes_per_node))
    return StepTime(
        **seconds,
        scale=sum(seconds.values()) * rates.scale_loss * doublings,
        tokens=plan.global_batch * plan.architecture.seq_length,
        gpus=gpus,
        # How fast a host steps was measured nowhere.
        calibrated=rates.calibrated and not plan.offloads_optimizer,
    )


def _predict_micro_batch(plan: RankPlan, stages: int, rates: HardwareRates) -> tuple[float, float, float, float]:
    """Seconds of forward pass, output, recomputation and exchange of one micro-batch."""
    forward = predict_forward(plan, rates)
    recomputation = predict_recomputation(plan, rates)
    hidden = plan.weight_bytes * plan.tokens * plan.architecture.hidden_size
    # One sum after attention and one after the MLP; one for both where the two are added before.
    sums = 2 if plan.architecture.residual == "serial" else 1
    passes = 3 if plan.checkpoint_layers else 2
    one = predict_all_reduce(hidden, Group(plan.tensor_parallel_size), rates)
    exchange = plan.architecture.num_layers * sums * passes * one
    if stages > 1:
        exchange += 2 * predict_send(hidden, plan.data_parallel_size * plan.tensor_parallel_size, rates)
    return forward, predict_output(plan, rates), recomputation, exchange


def _predict_exposed(plan: RankPlan, backward: float, rates: HardwareRates) -> float:
    """Seconds of a step's data-parallel collectives beyond what backward passes hide."""
    group = Group(plan.data_parallel_size, plan.tensor_parallel_size)
    if group.size == 1:
        return 0.0
    parameters = count_rank_parameters(plan)
    gradients, weights = parameters * plan.communication_bytes, parameters * plan.weight_bytes
    scatter, gather = predict_gather(gradients, group, rates), predict_gather(weights, group, rates)
    if plan.zero_stage == 0:
        return _expose(2 * scatter, backward, plan, rates)
    if plan.zero_stage == 1:
        return _expose(scatter, backward, plan, rates) + gather
    if plan.zero_stage == 2:
        # Every micro-batch's gradients are reduced: only the owner keeps them.
        return plan.accumulation_steps * _expose(scatter, backward, plan, rates) + gather
    # Weights are gathered ahead of both passes; the forward pass is half as long as the backward pass.
    return plan.accumulation_steps * _expose(scatter + 2 * gather, 1.5 * backward, plan, rates)


def _expose(collectives: float, computing: float, plan: RankPlan, rates: HardwareRates) -> float:
    """Seconds of collectives that stay visible beside ``computing`` seconds."""
    if not plan.overlap_comm and plan.zero_stage < 3:
        return collectives
    return collectives - min(rates.overlap_fraction * collectives, computing)
