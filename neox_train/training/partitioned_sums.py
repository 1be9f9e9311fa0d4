"""bf16 gradients of several micro-batches under ZeRO 2, added up in fp32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from neox_train.config.precision import wants_wide_sums

if TYPE_CHECKING:
    from deepspeed import DeepSpeedEngine

    from neox_train.config.schema import NeoxConfig


def widen_partitioned_sums(engine: DeepSpeedEngine, config: NeoxConfig) -> None:
    """Let a rank keep its share of the sums in ``data_types.grad_accum_dtype``.

    DeepSpeed 0.19.6 takes that format for its ZeRO 2 optimizer, but the averages of a micro-batch come back from their
    reduction in the weights' format, and those of the next are added to them.
    """
    optimizer: Any = engine.optimizer
    if config.zero_stage != 2 or not wants_wide_sums(config):
        return

    def list_averages(parameters: list[torch.nn.Parameter], dtype: torch.dtype) -> list[torch.Tensor]:
        """The first micro-batch's are the sums' start; later ones are added to these, whatever their format."""
        group = next(index for index, own in enumerate(optimizer.params_in_partition) if own is parameters)
        is_start = optimizer.all_grad_tensors.get(group) is None
        averages = [optimizer.get_param_gradient_attribute(parameter) for parameter in parameters]
        return [
            torch.zeros_like(parameter, dtype=dtype) if average is None else average.to(dtype) if is_start else average
            for parameter, average in zip(parameters, averages, strict=True)
        ]

    optimizer.get_all_grad_tensors = list_averages
