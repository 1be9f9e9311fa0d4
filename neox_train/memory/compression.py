"""What ``gradient_compression`` keeps from step to step and needs at its peak, to the byte in what it keeps."""

from __future__ import annotations

import math

from neox_train.config.parameters import Parameter
from neox_train.memory.groups import list_held
from neox_train.memory.plan import RankPlan

_FP32 = 4
_WORTH = 2
"""torch's PowerSGD leaves a matrix whole unless its factors have less than one in this many of its elements."""


def count_compression(plan: RankPlan) -> int:
    """Bytes that stand: PowerSGD's residual and factors, or the outer weights and momentum of local updates."""
    if plan.compression == "none":
        return 0
    parameters = list_held(plan.architecture, plan.links)
    whole = _FP32 * sum(parameter.count for parameter in parameters)
    if plan.compression == "local_update":
        return 2 * whole
    return whole + _FP32 * sum(_count_factors(parameter, plan.powersgd_rank) for parameter in parameters)


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


def _count_factors(parameter: Parameter, rank: int) -> int:
    rows, columns = parameter.shape[0], math.prod(parameter.shape[1:])
    elements = (rows + columns) * min(rows, columns, rank)
    return elements if elements * _WORTH < rows * columns else 0
