"""ZeRO 0: every data-parallel rank steps all weights, in fp32 or on fp32 copies of 16-bit ones."""

from __future__ import annotations

from typing import Any

import torch

from neox_train.checkpoint.adapters.held import EngineState, Held, Names, Position, Segment, lay_out, name_group


def hold_plain(optimizer: torch.optim.Optimizer, names: Names, position: Position) -> EngineState:
    """A base optimizer without a wrapper: fp32 weights are their own master copies."""
    held = [
        _hold_whole(parameter, names[parameter], group_index)
        for group_index, group in enumerate(optimizer.param_groups)
        for parameter in group["params"]
    ]
    return EngineState(
        kind="fp32", optimizer=optimizer, held=held, replicated=True, refresh=lambda: None, position=position
    )


def hold_unfused(wrapper: Any, names: Names, position: Position) -> EngineState:
    """DeepSpeed's FP16_UnfusedOptimizer (bf16 too): one fp32 copy a parameter."""
    held = [
        _hold_whole(master, names[parameter], group_index)
        for group_index, (masters, parameters) in enumerate(zip(wrapper.fp32_groups, wrapper.fp16_groups, strict=True))
        for master, parameter in zip(masters, parameters, strict=True)
    ]

    def refresh() -> None:
        for masters, parameters in zip(wrapper.fp32_groups, wrapper.fp16_groups, strict=True):
            for master, parameter in zip(masters, parameters, strict=True):
                parameter.data.copy_(master.data)

    return EngineState(
        kind="16-bit unfused",
        optimizer=wrapper.optimizer,
        held=held,
        replicated=True,
        refresh=refresh,
        loss_scaler=wrapper.loss_scale_config,
        position=position,
    )


def hold_fused(wrapper: Any, names: Names, position: Position) -> EngineState:
    """DeepSpeed's FP16_Optimizer: one flat fp32 copy a parameter group."""
    held = []
    for group_index, (flat, parameters) in enumerate(zip(wrapper.fp32_groups_flat, wrapper.fp16_groups, strict=True)):
        listed = name_group(parameters, names)
        held.append(Held(flat, lay_out(listed, 0, flat.numel()), [name for name, _ in listed], group_index))

    def refresh() -> None:
        for flat, parameters in zip(wrapper.fp32_groups_flat, wrapper.fp16_groups, strict=True):
            sizes = [parameter.numel() for parameter in parameters]
            for parameter, master in zip(parameters, flat.data.split(sizes), strict=True):
                parameter.data.copy_(master.view_as(parameter))

    return EngineState(
        kind="16-bit fused",
        optimizer=wrapper.optimizer,
        held=held,
        replicated=True,
        refresh=refresh,
        loss_scaler=wrapper.loss_scale_config,
        position=position,
    )


def _hold_whole(tensor: torch.Tensor, name: str, group: int) -> Held:
    return Held(tensor, [Segment(name, 0, tensor.numel(), 0)], [name], group)
