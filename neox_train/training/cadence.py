"""Which steps save, validate and log: pure functions of the step and the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neox_train.errors import ConfigError

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig


def last_step(config: NeoxConfig) -> int:
    """``train_iters``; ConfigError where it is not set."""
    if not config.train_iters:
        raise ConfigError("`train_iters` is not set; give it the number of optimizer steps")
    return config.train_iters


def saves_at(config: NeoxConfig, step: int) -> bool:
    """Whether ``checkpoint_factor`` or ``extra_save_iters`` asks for a checkpoint after ``step`` updates.

    ``checkpoint_scale: log`` saves at the whole parts of the powers of the factor. The last step is the loop's own.
    """
    if step in (config.extra_save_iters or ()):
        return True
    if not config.checkpoint_factor or step == 0:
        return False
    if config.checkpoint_scale == "log":
        return _is_power(step, float(config.checkpoint_factor))
    return step % int(config.checkpoint_factor) == 0


def validates_at(config: NeoxConfig, step: int) -> bool:
    """Whether the validation loss is measured after ``step`` updates: every ``eval_interval``, and at the end."""
    if not config.eval_iters or step == 0:
        return False
    return step == config.train_iters or (bool(config.eval_interval) and step % config.eval_interval == 0)


def logs_at(config: NeoxConfig, step: int) -> bool:
    """Whether ``step`` gets a metrics line: every ``log_interval``, with each checkpoint, and at the end."""
    return step % max(1, config.log_interval) == 0 or step == config.train_iters or saves_at(config, step)


def _is_power(step: int, factor: float) -> bool:
    if factor <= 1.0:
        return False
    power = 1.0
    while int(power) < step:
        power *= factor
    return int(power) == step
