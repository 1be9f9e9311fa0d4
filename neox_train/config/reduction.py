"""Keys of gradient reduction that DeepSpeed 0.19.6 ignores, asserts against or gets wrong at some ZeRO stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig


def list_reduction_problems(config: NeoxConfig) -> list[str]:
    """One phrase, with the remedy, for each key whose value would not do what it says."""
    zero = dict(config.zero_optimization or {})
    stage = config.zero_stage
    problems = []
    if stage > 0 and zero.get("allgather_partitions") is False:
        problems.append("zero_optimization.allgather_partitions: false (remove it; weights are always gathered)")
    if stage in (1, 2) and zero.get("contiguous_gradients") is False:
        problems.append(
            "zero_optimization.contiguous_gradients: false at stages 1 and 2 (remove it; replicas would train apart)"
        )
    scaled = {
        "prescale_gradients": config.prescale_gradients,
        "gradient_predivide_factor": config.gradient_predivide_factor != 1.0,
    }
    if stage == 3:
        problems += [f"{name} at zero_optimization.stage 3 (remove it)" for name, is_set in scaled.items() if is_set]
    if stage == 2 and zero.get("reduce_scatter", True):
        problems += [
            f"{name} at zero_optimization.stage 2 with reduce_scatter (set reduce_scatter: false)"
            for name, is_set in scaled.items()
            if is_set
        ]
    return problems
