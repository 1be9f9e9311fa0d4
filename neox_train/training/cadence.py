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


def count_saves(config: NeoxConfig, first_step: int) -> int:
    """Checkpoints from ``first_step`` to the end, the last step's among them, without a look at every step."""
    last = last_step(config)
    steps = {step for step in config.extra_save_iters or () if first_step <= step <= last}
    if first_step <= last:
        steps.add(last)
    factor = config.checkpoint_factor
    if not factor or first_step > last:
        return len(steps)
    if config.checkpoint_scale == "log":
        return len(steps | {step for step in _list_powers(float(factor), last) if step >= first_step})
    every, begin = int(factor), max(1, first_step)
    regular = last // every - (begin - 1) // every
    return regular + sum(step % every != 0 or step == 0 for step in steps)


def validates_at(config: NeoxConfig, step: int) -> bool:
    """Whether the validation loss is measured after ``step`` updates: every ``eval_interval``, and at the end."""
    if not config.eval_iters or step == 0:
        return False
    return step == config.train_iters or (bool(config.eval_interval) and step % config.eval_interval == 0)


def logs_at(config: NeoxConfig, step: int) -> bool:
    """Whether ``step`` gets a metrics line: every ``log_interval``, with each checkpoint, and at the end."""
    return step % max(1, config.log_interval) == 0 or step == config.train_iters or saves_at(config, step)


def _is_power(step: int, factor: float) -> bool:
    return step in _list_powers(factor, step)


def _list_powers(factor: float, last: int) -> set[int]:
    """Whole parts of the powers of ``factor`` from 1 to ``last``; none for a factor of 1 or less."""
    powers, power = set(), 1.0
    while factor > 1.0 and int(power) <= last:
        powers.add(int(power))
        power *= factor
    return powers
