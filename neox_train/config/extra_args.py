"""``deepspeed_extra_args``: only for keys of DeepSpeed that nothing else here decides."""

from __future__ import annotations

from neox_train.config.conflict import ConflictError
from neox_train.config.reader import show_value
from neox_train.config.schema import NeoxConfig, NeoxKeys

_OWN = {
    "optimizer": "set optimizer at the top level",
    "scheduler": "set lr_decay_style, warmup and lr_decay_iters",
    "zero_allow_untested_optimizer": "it is always true here, remove it",
    "zero_force_ds_cpu_optimizer": "the optimizer is built here, remove it",
}
_PASSED_ON = ("comms_logger", "wall_clock_breakdown", "dump_state")
"""Keys of the configuration that reach DeepSpeed only as extra arguments."""


def check_extra_args(config: NeoxConfig) -> None:
    """Raise ConflictError where an extra argument would silently replace a key of the configuration."""
    for key, value in (config.deepspeed_extra_args or {}).items():
        path = f"deepspeed_extra_args.{key}"
        if key in _OWN and not (key == "zero_allow_untested_optimizer" and value is True):
            raise ConflictError(f"{path} is {show_value(value)}; {_OWN[key]}", path)
        if key in NeoxKeys.model_fields and key not in _PASSED_ON and value != getattr(config, key):
            raise ConflictError(
                f"{path} is {show_value(value)}, but {key} is {show_value(getattr(config, key))}; "
                f"set {key} at the top level only",
                path,
                key,
            )
