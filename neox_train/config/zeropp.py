"""ZeRO++: weights and gradients that travel in 8 and 4 bits, and a second partition of the weights inside nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neox_train.config.compression import choose_communication_type

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

_QUANTISED = ("zero_quantized_weights", "zero_quantized_gradients")


def list_quantised(config: NeoxConfig) -> list[str]:
    """The keys in force that need DeepSpeed's quantising kernels, which exist for GPUs only."""
    zero: dict[str, Any] = dict(config.zero_optimization or {})
    return [f"zero_optimization.{name}" for name in _QUANTISED if zero.get(name)]


def list_zeropp_problems(config: NeoxConfig) -> list[str]:
    """One phrase, with the remedy, for each key of ZeRO++ that the layout does not go with."""
    zero: dict[str, Any] = dict(config.zero_optimization or {})
    ranks = int(zero.get("zero_hpz_partition_size") or 1)
    keys = list_quantised(config) + (["zero_optimization.zero_hpz_partition_size"] if ranks > 1 else [])
    problems = []
    if config.zero_stage != 3:
        problems += [f"{key} at zero_optimization.stage {config.zero_stage} (set stage: 3)" for key in keys]
    if config.model_parallel_size > 1 or config.pipe_parallel_size > 1:
        problems += [f"{key} with model_parallel_size or pipe_parallel_size above 1 (set 1)" for key in keys]
    if config.precision == "fp32":
        problems += [f"{key} with precision fp32 (set bfloat16)" for key in list_quantised(config)]
    # DeepSpeed 0.19.6 hands gradients to a kernel that reads every 16 bits as fp16.
    is_misread = config.precision == "bfloat16" and choose_communication_type(config) != "fp16"
    if zero.get("zero_quantized_gradients") and is_misread:
        problems.append(
            "zero_optimization.zero_quantized_gradients with gradients that travel in bf16 "
            "(set communication_data_type: fp16, which its kernel reads)"
        )
    if config.data_parallel_size % ranks:
        problems.append(
            f"zero_optimization.zero_hpz_partition_size {ranks} does not divide the {config.data_parallel_size} "
            "data-parallel ranks (set the GPUs of a node)"
        )
    return problems
