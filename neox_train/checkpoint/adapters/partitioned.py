"""ZeRO 1 and 2: each data-parallel rank steps its partition of the flat fp32 weights of a parameter group."""

from __future__ import annotations

from typing import Any

from deepspeed import comm

from neox_train.checkpoint.adapters.held import EngineState, Held, Names, Position, lay_out, name_group


def hold_zero(wrapper: Any, names: Names, position: Position) -> EngineState:
    """DeepSpeedZeroOptimizer: groups lie in the round-robin order where that is on."""
    held = _hold_partitions(wrapper, wrapper.round_robin_bit16_groups, wrapper.single_partition_of_fp32_groups, names)
    return _build(wrapper, held, loss_scaler=wrapper.loss_scaler, position=position)


def hold_bf16(wrapper: Any, names: Names, position: Position) -> EngineState:
    """BF16_Optimizer, ZeRO 1 with fp32 gradient accumulation: no loss scale."""
    held = _hold_partitions(wrapper, wrapper.bf16_groups, wrapper.fp32_groups_flat_partition, names)
    return _build(wrapper, held, loss_scaler=None, position=position)


def _build(wrapper: Any, held: list[Held], *, loss_scaler: Any, position: Position) -> EngineState:
    def unlink() -> None:
        wrapper._hp_optimizer_states_linked = False

    return EngineState(
        kind="partitioned",
        optimizer=wrapper.optimizer,
        held=held,
        replicated=False,
        refresh=wrapper.update_lp_params,
        loss_scaler=loss_scaler,
        unlink=unlink,
        position=position,
    )


def _hold_partitions(wrapper: Any, groups: list[Any], partitions: list[Any], names: Names) -> list[Held]:
    held = []
    for index, (parameters, partition) in enumerate(zip(groups, partitions, strict=True)):
        begin = comm.get_rank(group=wrapper.real_dp_process_group[index]) * partition.numel()
        listed = name_group(parameters, names)
        segments = lay_out(listed, begin, begin + partition.numel())
        held.append(Held(partition, segments, [name for name, _ in listed], index))
    return held
