"""16-bit engines without ZeRO: what DeepSpeed's wrapper around the optimizer leaves to others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from neox_train.config.precision import wants_wide_sums
from neox_train.errors import ConfigError
from neox_train.training.shared_norm import measure_norm

if TYPE_CHECKING:
    from deepspeed import DeepSpeedEngine

    from neox_train.config.schema import NeoxConfig


@contextlib.contextmanager
def without_steps(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Within the block the optimizer takes no step.

    DeepSpeed's wrappers have states made by a step with gradients of zeros. It would count as the first for Adam's bias
    correction, and decay the weights.
    """
    optimizer.step = lambda *_, **__: None
    try:
        yield
    finally:
        del optimizer.step


def complete_wrapper(engine: DeepSpeedEngine) -> None:
    """Give DeepSpeed 0.19.6's 16-bit wrapper without ZeRO the loss scale and the norm that it lacks.

    It divides gradients by fp16's scale, but the engine multiplies the loss of ZeRO's optimizers alone. It divides by
    the scale of the next step, double where that has just grown. It measures a group at a time over all ranks that
    share the model, whose groups can differ in number, and looks for the marks of what they hold alike on gradients,
    where nobody puts them.
    """
    optimizer: Any = engine.optimizer
    if not hasattr(optimizer, "loss_scale_config"):
        return
    if optimizer.loss_scale_config.use_grad_scaling:
        _scale_losses(engine)
    optimizer.step = partial(_step, engine)


@torch.no_grad()
def _step(engine: DeepSpeedEngine) -> bool:
    """The wrapper's update; True where gradients were not finite and nothing was changed."""
    optimizer: Any = engine.optimizer
    optimizer.overflow = optimizer.overflow_checker.check()
    if not optimizer.overflow:
        scale = optimizer.loss_scale_config.cur_scale
        scaled_norm = float(measure_norm(engine))
        optimizer._global_grad_norm = scaled_norm / scale
        pairs = [
            (wide, narrow)
            for wides, narrows in zip(optimizer.fp32_groups, optimizer.fp16_groups, strict=True)
            for wide, narrow in zip(wides, narrows, strict=True)
        ]
        for wide, narrow in pairs:
            wide.grad = torch.zeros_like(wide) if narrow.grad is None else narrow.grad.float()
        optimizer.unscale_and_clip_grads(scaled_norm)
        optimizer.optimizer.step()
        for wide, narrow in pairs:
            wide.grad = None
            narrow.copy_(wide)
    optimizer._update_scale(optimizer.overflow)
    return bool(optimizer.overflow)


def _scale_losses(engine: DeepSpeedEngine) -> None:
    config: Any = engine.optimizer.loss_scale_config

    def scale(gradient: torch.Tensor) -> torch.Tensor:
        return gradient * config.cur_scale

    def scale_backward(loss: Any) -> Any:
        if torch.is_tensor(loss) and loss.requires_grad:
            loss.register_hook(scale)
        return loss

    module: Any = engine.module
    measure = getattr(module, "loss_fn", None)
    if measure is None:
        module.register_forward_hook(lambda _module, _inputs, loss: scale_backward(loss))
    else:
        module.loss_fn = lambda outputs, targets: scale_backward(measure(outputs, targets))


def widen_sums(model: torch.nn.Module, config: NeoxConfig) -> None:
    """Let bf16 gradients of several micro-batches add up in fp32, as in every other optimizer here.

    Raises ConfigError where this torch has no gradients wider than their weight.
    """
    if config.zero_stage > 0 or config.pipe_parallel_size > 1 or not wants_wide_sums(config):
        return
    for parameter in model.parameters():
        if not hasattr(parameter, "grad_dtype"):
            raise ConfigError(
                "data_types.grad_accum_dtype: fp32 at zero_optimization.stage 0 needs torch 2.10 or newer, and this is "
                f"{torch.__version__}; set zero_optimization.stage: 1, or grad_accum_dtype: bf16"
            )
        parameter.grad_dtype = torch.float32
