"""ZeRO 3: each parameter is cut evenly over the data-parallel ranks, and the cuts of a sub-group lie in one tensor."""

from __future__ import annotations

from typing import Any

from neox_train.checkpoint.adapters.held import EngineState, Held, Names, Position, Segment


def hold_sharded(wrapper: Any, names: Names, position: Position) -> EngineState:
    """DeepSpeedZeroOptimizer_Stage3 with its weights and states in memory (no NVMe)."""
    held = []
    for index, (parameters, flat) in enumerate(
        zip(wrapper.fp16_groups, wrapper.fp32_partitioned_groups_flat, strict=True)
    ):
        segments, offset = [], 0
        for parameter in parameters:
            share = parameter.partition_numel()
            start = wrapper._get_param_partition_rank(parameter) * share
            length = min(share, parameter.ds_numel - start)
            if length > 0:
                segments.append(Segment(names[parameter], start, length, offset))
            offset += share
        group = wrapper.sub_group_to_group_id[index]
        held.append(Held(flat, segments, [names[parameter] for parameter in parameters], group))

    def refresh() -> None:
        wrapper._partition_all_parameters()
        for index in range(len(wrapper.fp16_groups)):
            wrapper._reassign_or_swap_out_partitioned_parameters(index)
        wrapper._post_step([])

    return EngineState(
        kind="sharded",
        optimizer=wrapper.optimizer,
        held=held,
        replicated=False,
        refresh=refresh,
        loss_scaler=wrapper.loss_scaler,
        position=position,
    )
