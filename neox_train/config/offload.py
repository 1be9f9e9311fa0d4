"""ZeRO-Offload: optimizer states, and under ZeRO 3 the weights, in the memory of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

_BUILT = ("device", "pin_memory")
_STEPPED_ON_HOST = ("adam", "adamw", "cpu_adam", "cpu_torch_adam", "lion", "sgd")


def offloads_optimizer(config: NeoxConfig) -> bool:
    """Whether master weights and optimizer states are in host memory and are stepped there."""
    return _read_device(config, "offload_optimizer") != "none"


def offloads_weights(config: NeoxConfig) -> bool:
    """Whether ZeRO 3 keeps its shares of the weights in host memory."""
    return _read_device(config, "offload_param") != "none"


def pins_host_memory(config: NeoxConfig) -> bool:
    """Whether the host memory of either is locked into RAM, DeepSpeed's default."""
    blocks = [_read_block(config, name) for name in ("offload_optimizer", "offload_param")]
    return any((block.get("device") or "none") != "none" and block.get("pin_memory", True) for block in blocks)


def list_offload_problems(config: NeoxConfig) -> list[str]:
    """One phrase, with the remedy, for each key that is not built, or that the layout does not go with."""
    problems = [*_list_keys(config, "offload_optimizer"), *_list_keys(config, "offload_param")]
    if offloads_weights(config) and config.zero_stage != 3:
        problems.append(
            f"zero_optimization.offload_param at zero_optimization.stage {config.zero_stage} (set stage: 3)"
        )
    if offloads_weights(config) and not offloads_optimizer(config):
        problems.append(
            "zero_optimization.offload_param without offload_optimizer (set offload_optimizer: {device: cpu} too)"
        )
    if not offloads_optimizer(config):
        return problems
    key = "zero_optimization.offload_optimizer"
    if config.zero_stage == 0:
        problems.append(f"{key} at zero_optimization.stage 0 (set stage: 2)")
    if config.zero_stage == 1 and config.precision != "fp32":
        # DeepSpeed 0.19.6 loses gradients there: bf16 losses were off by 0.07 after 20 steps of a tiny model.
        problems.append(f"{key} at zero_optimization.stage 1 with precision {config.precision} (set stage: 2)")
    if config.pipe_parallel_size > 1:
        problems.append(f"{key} with pipe_parallel_size above 1 (set 1)")
    if config.use_bnb_optimizer:
        problems.append(f"{key} with use_bnb_optimizer (set one of the two; 8-bit states save the GPU's memory)")
    elif config.optimizer_type not in _STEPPED_ON_HOST:
        problems.append(f"{key} with optimizer.type {config.optimizer_type} (built: Adam, CPU_Adam, Lion, SGD)")
    return problems


def _list_keys(config: NeoxConfig, name: str) -> list[str]:
    block = _read_block(config, name)
    path = f"zero_optimization.{name}"
    device, pinned = block.get("device") or "none", block.get("pin_memory", True)
    problems = [f"{path}.{key} (remove it; built: {', '.join(_BUILT)})" for key in block if key not in _BUILT]
    if device not in ("cpu", "none"):
        problems.insert(0, f"{path}.device {device} (set cpu)")
    if not isinstance(pinned, bool):
        problems.append(f"{path}.pin_memory {pinned} (set true or false)")
    return problems if device != "none" or "device" not in block else []


def _read_device(config: NeoxConfig, name: str) -> str:
    return str(_read_block(config, name).get("device") or "none")


def _read_block(config: NeoxConfig, name: str) -> dict[str, Any]:
    zero: dict[str, Any] = dict(config.zero_optimization or {})
    return dict(zero.get(name) or {})
