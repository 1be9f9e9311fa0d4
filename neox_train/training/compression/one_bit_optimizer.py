"""DeepSpeed's 1-bit Adam, 0/1 Adam and 1-bit LAMB over this project's parameter groups."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from deepspeed.runtime.comm import compressed
from deepspeed.runtime.fp16.onebit.adam import OnebitAdam
from deepspeed.runtime.fp16.onebit.lamb import OnebitLamb
from deepspeed.runtime.fp16.onebit.zoadam import ZeroOneAdam

from neox_train.config.one_bit import choose_one_bit_warmup
from neox_train.errors import ConfigError
from neox_train.training.compression.one_bit_exchange import OneBitExchange

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

_CLASSES = {"onebitadam": OnebitAdam, "zerooneadam": ZeroOneAdam, "onebitlamb": OnebitLamb}
_WARMUP_PARAMETER = {"onebitadam": "freeze_step", "zerooneadam": "var_freeze_step", "onebitlamb": "freeze_step"}
ONE_BIT_OPTIMIZERS = tuple(_CLASSES.values())


@dataclass
class ReductionSwitch:
    """What the optimizers take for the engine: they say here whether whole gradients are averaged before a step."""

    enable_backward_allreduce: bool = True
    local_rank: int = 0
    mpu: None = None


def build_one_bit(config: NeoxConfig, groups: list[dict[str, Any]], params: dict[str, Any]) -> torch.optim.Optimizer:
    """The optimizer of ``config.optimizer_type``; it compresses from ``choose_one_bit_warmup`` steps on.

    The first step of each of them only allocates, and counts as one.
    """
    kind = config.optimizer_type
    if kind == "zerooneadam" and torch.distributed.get_world_size() == 1:
        # DeepSpeed's 0/1 Adam drops the gradients of the steps in which it would exchange signs.
        raise ConfigError("gradient_compression zero_one_adam needs two processes or more; set it to none for one")
    given = {**params, _WARMUP_PARAMETER[kind]: choose_one_bit_warmup(config) + 1}
    with _own_backend():
        return _CLASSES[kind](groups, deepspeed=ReductionSwitch(), comm_backend_name="compressed", **given)


@contextlib.contextmanager
def _own_backend() -> Iterator[None]:
    """Within the block the optimizers' constructors find our exchange in the place of DeepSpeed's."""
    original = compressed.CompressedBackend
    compressed.CompressedBackend = lambda mpu: OneBitExchange(torch.distributed.group.WORLD)
    try:
        yield
    finally:
        compressed.CompressedBackend = original


def allocate_states(optimizer: Any) -> None:
    """Take the first step, which only allocates, where the engine's wrapper has not: with gradients of zeros."""
    if optimizer.initialize:
        return
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    step_quietly(optimizer)
    for parameter in parameters:
        parameter.grad = None


def step_quietly(optimizer: torch.optim.Optimizer) -> None:
    """A step without the lines that the optimizers print."""
    with contextlib.redirect_stdout(io.StringIO()):
        optimizer.step()
