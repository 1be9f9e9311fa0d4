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
    "train_batch_size": "set it at the top level",
}


def check_extra_args(config: NeoxConfig) -> None:
    """Raise ConflictError where an extra argument would silently replace a key of the configuration."""
    for key, value in (config.deepspeed_extra_args or {}).items():
        path = f"deepspeed_extra_args.{key}"
        if key in NeoxKeys.model_fields and key != "comms_logger" and value != getattr(config, key):
            raise ConflictError(
                f"{path} is {show_value(value)}, but {key} is {show_value(getattr(config, key))}; "
                f"set {key} at the top level only",
                path,
                key,
            )
        if key in _OWN and key not in NeoxKeys.model_fields:
            if not (key.startswith("zero_allow") and value is True):
                raise ConflictError(f"{path} is {show_value(value)}; {_OWN[key]}", path)
