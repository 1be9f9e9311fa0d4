"""One optimizer update through the engine: the global gradient norm, and a skip where it is not finite."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from neox_train.training.flat_masters import FlatMasters
from neox_train.training.shared_norm import measure_norm

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
    _step(engine)
    if not engine.was_step_applied():
        return Update(False, math.nan, loss_scale)
    if norm is None:
        norm = float(engine.get_global_grad_norm())
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
        return float(measure_norm(engine))
    return None


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
