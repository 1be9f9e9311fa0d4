"""What ``gradient_compression`` keeps from step to step and needs at its peak, to the byte in what it keeps."""

from __future__ import annotations

import math
from collections.abc import Iterable

from neox_train.config.one_bit import FURTHER_STATES
from neox_train.config.parameters import Parameter
from neox_train.memory.groups import list_held
from neox_train.memory.plan import RankPlan

_FP32 = 4
_WORTH = 2
"""torch's PowerSGD leaves a matrix whole unless its factors have less than one in this many of its elements."""


def count_compression(plan: RankPlan) -> int:
    """Bytes that stand: PowerSGD's residual and factors, the outer weights and momentum of local updates, or what 1-bit
    optimizers keep beside two moments.
    """
    if plan.compression == "none":
        return 0
    parameters = list_held(plan.architecture, plan.links)
    whole = _FP32 * sum(parameter.count for parameter in parameters)
    if plan.compression == "local_update":
        return 2 * whole
    if plan.compression != "powersgd":
        return _count_errors(plan, parameters) + FURTHER_STATES[plan.compression] * whole
    return whole + _FP32 * sum(_count_factors(parameter, plan.powersgd_rank) for parameter in parameters)


def share_powersgd(plan: RankPlan) -> float:
    """Elements that PowerSGD sends, factors and what stays whole, by those of the gradients."""
    parameters = list_held(plan.architecture, plan.links)
    sent = sum(_count_factors(parameter, plan.powersgd_rank) or parameter.count for parameter in parameters)
    return sent / sum(parameter.count for parameter in parameters)


def count_compressed_reduction(plan: RankPlan) -> int:
    """Bytes beside the gradients while PowerSGD reduces them: the bucket, its copy and the next residual, in fp32.

    Local updates reduce no gradients.
    """
    if plan.compression != "powersgd":
        return 0
    return 3 * _FP32 * sum(parameter.count for parameter in list_held(plan.architecture, plan.links))


def count_synchronisation(plan: RankPlan) -> int:
    """Bytes while local updates average the weights' change: by parameter, joined, and in the wire's format."""
    if plan.compression != "local_update":
        return 0
    return (2 * _FP32 + 2) * sum(parameter.count for parameter in list_held(plan.architecture, plan.links))


def count_exchange(plan: RankPlan) -> int:
    """Bytes while a 1-bit optimizer exchanges: of the largest weight, of 1-bit LAMB's whole buffer of momenta.

    The padded values, those with their error, their signs as numbers and what they miss.
    """
    if plan.compression not in ("onebit_adam", "zero_one_adam", "onebit_lamb"):
        return 0
    sizes = [parameter.count for parameter in list_held(plan.architecture, plan.links)]
    if plan.compression == "onebit_lamb":
        # And the momenta of the step before.
        return 5 * _FP32 * sum(sizes)
    return 4 * _FP32 * max(sizes)


def _count_errors(plan: RankPlan, parameters: Iterable[Parameter]) -> int:
    """fp32 rests of this rank and of its chunk, each tensor rounded up to whole bytes of signs a rank.

    1-bit LAMB has one buffer, whose momenta are rounded up too.
    """
    ranks = plan.data_parallel_size
    multiple = ranks * math.lcm(ranks, 8)
    sizes = [parameter.count for parameter in parameters]
    whole = sum(sizes)
    padded = [-(-size // multiple) * multiple for size in ([whole] if plan.compression == "onebit_lamb" else sizes)]
    grown = sum(padded) - whole if plan.compression == "onebit_lamb" else 0
    return _FP32 * (sum(padded) + sum(padded) // ranks + grown)


def _count_factors(parameter: Parameter, rank: int) -> int:
    rows, columns = parameter.shape[0], math.prod(parameter.shape[1:])
    elements = (rows + columns) * min(rows, columns, rank)
    return elements if elements * _WORTH < rows * columns else 0
