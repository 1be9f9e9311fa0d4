"""The state of a DeepSpeed engine, found by the kind of its optimizer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
from deepspeed import comm
from deepspeed.runtime.bf16_optimizer import BF16_Optimizer
from deepspeed.runtime.fp16.fused_optimizer import FP16_Optimizer
from deepspeed.runtime.fp16.unfused_optimizer import FP16_UnfusedOptimizer
from deepspeed.runtime.zero.stage3 import DeepSpeedZeroOptimizer_Stage3
from deepspeed.runtime.zero.stage_1_and_2 import DeepSpeedZeroOptimizer
from deepspeed.utils.bwc import bwc_tensor_model_parallel_rank, bwc_tensor_model_parallel_world_size

from neox_train.checkpoint.adapters.held import EngineState, Position
from neox_train.checkpoint.adapters.partitioned import hold_bf16, hold_zero
from neox_train.checkpoint.adapters.replicated import hold_fused, hold_plain, hold_unfused
from neox_train.checkpoint.adapters.sharded import hold_sharded
from neox_train.errors import NotBuiltError

_ADAPTERS = {
    DeepSpeedZeroOptimizer: hold_zero,
    DeepSpeedZeroOptimizer_Stage3: hold_sharded,
    BF16_Optimizer: hold_bf16,
    FP16_Optimizer: hold_fused,
    FP16_UnfusedOptimizer: hold_unfused,
}
_COUNTERS = ("global_steps", "global_samples", "skipped_steps")
_SCALER_FIELDS = ("cur_scale", "cur_iter", "last_overflow_iter", "cur_hysteresis")


def open_engine(engine: Any, model: torch.nn.Module) -> EngineState:
    """Where the engine keeps master weights and optimizer states; parameters by the model's canonical names.

    Raises NotBuiltError for an optimizer kind that cannot be saved yet.
    """
    names = {parameter: name for name, parameter in model.named_parameters()}
    position = _find_position(engine)
    wrapper = engine.optimizer
    if hasattr(wrapper, "open_state"):
        return cast(EngineState, wrapper.open_state(names, position))
    plain = hold_plain if wrapper is engine.basic_optimizer else None
    adapter = _ADAPTERS.get(type(wrapper), plain)
    if adapter is not None:
        # The last stage's copy of tied embeddings is the first stage's to write.
        copies = {names[p] for p in names if getattr(p, "ds_pipe_replicated", False)}
        return replace(adapter(wrapper, names, position), copies=frozenset(copies))
    raise NotBuiltError(
        f"checkpoints of a {type(wrapper).__name__} cannot be written yet; "
        "set zero_optimization.stage to 0, 1, 2 or 3 without offload to NVMe"
    )


def _find_position(engine: Any) -> Position:
    group = engine.seq_data_parallel_group
    dp, dp_size = comm.get_rank(group=group), comm.get_world_size(group=group)
    mpu = engine.mpu
    tensor = bwc_tensor_model_parallel_rank(mpu), bwc_tensor_model_parallel_world_size(mpu)
    if not hasattr(mpu, "get_pipe_parallel_rank"):
        return Position(dp, dp_size, *tensor)
    return Position(dp, dp_size, *tensor, mpu.get_pipe_parallel_rank(), mpu.get_pipe_parallel_world_size())


def capture_counters(engine: Any) -> dict[str, int]:
    """The engine's own counts of steps and samples."""
    return {name: int(getattr(engine, name)) for name in _COUNTERS}


def restore_counters(engine: Any, counters: dict[str, int]) -> None:
    """Set the counts; micro-steps follow from the steps, so that a changed accumulation starts at a boundary."""
    for name in _COUNTERS:
        setattr(engine, name, counters[name])
    engine.micro_steps = engine.global_steps * engine.gradient_accumulation_steps()


def capture_loss_scaler(scaler: Any) -> dict[str, Any] | None:
    """The moving values of a dynamic loss scaler; None where the scale is fixed."""
    if not _is_dynamic(scaler):
        return None
    return {name: getattr(scaler, name) for name in _SCALER_FIELDS if hasattr(scaler, name)}


def restore_loss_scaler(scaler: Any, values: dict[str, Any] | None) -> None:
    """Set a dynamic loss scaler; a fixed one keeps what the configuration says."""
    if values is None or not _is_dynamic(scaler):
        return
    for name, value in values.items():
        if hasattr(scaler, name):
            setattr(scaler, name, value)


def _is_dynamic(scaler: Any) -> bool:
    return bool(getattr(scaler, "dynamic", False) or getattr(scaler, "dynamic_loss_scale", False))
