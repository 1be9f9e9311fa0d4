"""What ``gradient_compression`` a planned layout would gain from, by the cluster file's bandwidths."""

from __future__ import annotations

from neox_train.memory.compression import share_powersgd
from neox_train.memory.compression_advice import Link, StepFacts, advise
from neox_train.memory.plan import RankPlan
from neox_train.memory.throughput.collectives import Group
from neox_train.memory.throughput.compute import count_rank_parameters
from neox_train.memory.throughput.rates import HardwareRates
from neox_train.memory.throughput.step import StepTime

_NARROW = 2


def word_compression(plan: RankPlan, step: StepTime, rates: HardwareRates) -> str | None:
    """One sentence with the method that is predicted to reach a loss soonest; None for one replica.

    Methods that replace the sum of gradients need whole models on every rank: ZeRO stage 0, no tensor or pipeline
    parallel.
    """
    group = Group(plan.data_parallel_size, plan.tensor_parallel_size)
    bandwidth = group.bandwidth(rates)
    if group.size == 1:
        return None
    if bandwidth is None:
        return "gradient_compression: not predicted, the cluster file has no network.gb_per_second"
    is_whole = (
        plan.zero_stage == 0 and plan.tensor_parallel_size == 1 and step.bubble == 0 and not plan.following_stages
    )
    narrowing = ("bf16",) if plan.communication_bytes > _NARROW else ()
    facts = StepFacts(
        replicas=group.size,
        parameters=count_rank_parameters(plan),
        element_bytes=plan.communication_bytes,
        compute_seconds=step.total - step.data_parallel,
        powersgd_share=share_powersgd(plan),
    )
    link = Link(gb_per_second=bandwidth / 1e9, latency_seconds=rates.latency_seconds)
    if is_whole:
        return advise(link, facts, allowed=(*narrowing, "powersgd", "local_update")).reason
    share = step.data_parallel / step.total
    return (
        f"gradient_compression: collectives of replicas are {share:.0%} of this layout's step; what saves more than 16 "
        "bits needs zero_optimization.stage 0 without tensor or pipeline parallel"
    )
