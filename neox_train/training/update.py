"""One optimizer update through the engine: the global gradient norm, and a skip where it is not finite."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from neox_train.training.flat_masters import FlatMasters

if TYPE_CHECKING:
    from deepspeed import DeepSpeedEngine


@dataclass(frozen=True, slots=True)
class Update:
    """What became of the accumulated gradients."""

    applied: bool
    grad_norm: float
    """L2 norm over all parameters of the averaged gradient, before clipping; not finite when it was skipped."""
    loss_scale: float | None
    """Scale the update was made with; None without fp16."""


def apply_update(engine: DeepSpeedEngine) -> Update:
    """Clip and apply the gradients of all micro-batches; every rank comes to the same decision.

    ZeRO and the 16-bit wrappers look for values that are not finite themselves. Plain fp32 and DeepSpeed's
    bf16 optimizer with fp32 accumulation do not, so their norm is taken first.
    """
    if isinstance(engine.optimizer, FlatMasters):
        return _update_flat_masters(engine, engine.optimizer)
    loss_scale = _loss_scale(engine)
    norm = _norm_before_step(engine)
    if norm is not None and not math.isfinite(norm):
        _drop_gradients(engine)
        return Update(False, norm, loss_scale)
    _mark_gradients(engine)
    _step(engine)
    if not engine.was_step_applied():
        return Update(False, math.nan, loss_scale)
    if norm is None:
        norm = float(engine.get_global_grad_norm()) / _norm_scale(engine, loss_scale)
    return Update(True, norm, loss_scale)


def _step(engine: DeepSpeedEngine) -> None:
    if not is_pipeline(engine):
        engine.step()
        return
    # A pipeline's engine has no step of its own to call: this is what its schedule does at the end of a batch.
    pipeline: Any = engine
    pipeline._force_grad_boundary = True
    pipeline._take_model_step(None)
    pipeline._force_grad_boundary = False


def is_pipeline(engine: DeepSpeedEngine) -> bool:
    """Whether the engine runs micro-batches through stages by itself."""
    return hasattr(engine, "train_batch")


def _update_flat_masters(engine: DeepSpeedEngine, optimizer: FlatMasters) -> Update:
    """The update kernel itself skips; the host learns of it afterwards, with the norm."""
    engine.step()
    norm = optimizer.grad_norm.item()
    applied = math.isfinite(norm)
    engine.skipped_steps += not applied
    return Update(applied, norm, None)


def _norm_before_step(engine: DeepSpeedEngine) -> float | None:
    optimizer: Any = engine.optimizer
    if hasattr(optimizer, "get_grads_for_norm"):
        gradients, _ = optimizer.get_grads_for_norm()
        from deepspeed.runtime.utils import get_global_norm_of_tensors

        norm = float(get_global_norm_of_tensors(input_tensors=gradients, mpu=engine.mpu, norm_type=2))
        # DeepSpeed puts -1 in the place of a norm that is not finite.
        return norm if norm >= 0 else math.nan
    if isinstance(optimizer, torch.optim.Optimizer) and not hasattr(optimizer, "overflow"):
        return _measure_norm(engine)
    return None


def _measure_norm(engine: DeepSpeedEngine) -> float:
    """Norm of plain gradients; what tensor-parallel ranks hold alike is counted once."""
    mpu = engine.mpu
    parameters = [p for p in engine.module.parameters() if p.grad is not None]
    if mpu is not None and mpu.get_model_parallel_rank() > 0:
        parameters = [p for p in parameters if getattr(p, "model_parallel", False)]
    norm = torch.nn.utils.get_total_norm([p.grad for p in parameters])
    if mpu is None:
        return float(norm)
    squared = norm.square()
    torch.distributed.all_reduce(squared, group=mpu.get_model_parallel_group())
    return float(squared.sqrt())


def _mark_gradients(engine: DeepSpeedEngine) -> None:
    """Say on the gradients too which of them are cut over ranks: the 16-bit wrapper without ZeRO takes its norm from
    gradients and looks for the mark there, where it would leave out the shards of every rank but the first.
    """
    for parameter in engine.module.parameters():
        if parameter.grad is not None and getattr(parameter, "model_parallel", False):
            parameter.grad.model_parallel = True


def _drop_gradients(engine: DeepSpeedEngine) -> None:
    """Forget the gradients and count the step as the engine does for one that its own check skips."""
    optimizer: Any = engine.optimizer
    for clear in ("clear_hp_grads", "clear_lp_grads"):
        if hasattr(optimizer, clear):
            getattr(optimizer, clear)()
    engine.zero_grad()
    engine.micro_steps += 1
    engine.global_steps += 1
    engine.skipped_steps += 1


def _loss_scale(engine: DeepSpeedEngine) -> float | None:
    if not engine.fp16_enabled():
        return None
    optimizer: Any = engine.optimizer
    config = getattr(optimizer, "loss_scale_config", None)
    return float(config.cur_scale if config is not None else optimizer.loss_scale)


def _norm_scale(engine: DeepSpeedEngine, loss_scale: float | None) -> float:
    """The 16-bit wrappers without ZeRO report the norm of the scaled gradients."""
    unscaled = loss_scale is None or not hasattr(engine.optimizer, "loss_scale_config")
    return 1.0 if unscaled else float(loss_scale or 1.0)
