"""Flat master weights under a DeepSpeed engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from neox_train.config.compression import choose_communication_type
from neox_train.training.flat_adamw import FlatAdamW
from neox_train.training.flat_masters import FlatMasters
from neox_train.training.optimizer import build_8bit_optimizer, select_params

if TYPE_CHECKING:
    from deepspeed import DeepSpeedEngine

    from neox_train.config.schema import NeoxConfig

_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "bfp16": torch.bfloat16}


def build_flat_masters(config: NeoxConfig, groups: list[dict[str, Any]]) -> FlatMasters:
    """The optimizer over the fp32 model's ``groups``; at ZeRO stage 1 every data-parallel rank owns a partition."""

    def build_base(flat_groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        if config.use_bnb_optimizer:
            return build_8bit_optimizer(config, flat_groups)
        return FlatAdamW(flat_groups, **select_params(config))

    shards = config.data_parallel_size if config.zero_stage == 1 else 1
    return FlatMasters(groups, build_base, gradient_clipping=config.gradient_clipping, shards=shards)


def attach_flat_masters(engine: DeepSpeedEngine, optimizer: FlatMasters, config: NeoxConfig) -> None:
    """Hand gradients and their reduction to the optimizer, and cast the model to bf16.

    DeepSpeed has built an fp32 engine, which neither wraps the optimizer nor touches a gradient once its own reduction
    is off. With one micro-batch a step nothing is added up, so the gradients stay in 16 bits; otherwise they
    accumulate in ``data_types.grad_accum_dtype``, fp32 by default.
    """
    engine.enable_backward_allreduce = False
    accumulated = (config.data_types or {}).get("grad_accum_dtype") or "fp32"
    alone = config.gradient_accumulation_steps == 1
    communicated = choose_communication_type(config)
    optimizer.attach(
        torch.bfloat16,
        gradient_dtype=torch.bfloat16 if alone else _DTYPES[accumulated],
        communication_dtype=_DTYPES[communicated] if communicated else None,
    )
