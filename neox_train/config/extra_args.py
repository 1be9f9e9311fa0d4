"""``deepspeed_extra_args``: only for keys of DeepSpeed that nothing else here decides."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from neox_train.config.conflict import ConflictError
from neox_train.config.nearest import find_nearest
from neox_train.config.reader import show_value
from neox_train.config.schema import NeoxConfig, NeoxKeys

_CHECKPOINTS = "remove it: checkpoints are this project's own, not DeepSpeed's"
_OWN = {
    "optimizer": "set optimizer at the top level",
    "scheduler": "set lr_decay_style, warmup and lr_decay_iters",
    "zero_allow_untested_optimizer": "it is always true here, remove it",
    "zero_force_ds_cpu_optimizer": "the optimizer is built here, remove it",
    "nebula": _CHECKPOINTS,
    "datastates_ckpt": _CHECKPOINTS,
    "tensor_parallel": "remove it and set model_parallel_size",
    "expert_parallel": "remove it: mixtures of experts are not built",
    "sequence_parallel_size": "remove it and set sequence_parallel: true, which goes with model_parallel_size",
    "data_parallel_size": "remove it: it follows from the number of processes",
    "pipeline": "remove it: what stages exchange is decided here",
    "torch_autocast": "remove it and set precision",
    "hybrid_engine": "remove it: nothing is generated during a training",
    "bfloat16": "remove it and set precision: bfloat16",
}
_PASSED_ON = ("comms_logger", "wall_clock_breakdown", "dump_state")
"""Keys of the configuration that reach DeepSpeed only as extra arguments."""
_SWITCHES = ("wall_clock_breakdown", "memory_breakdown", "dump_state", "disable_allgather", "dataloader_drop_last")
_COMMS_LOGGER = ("enabled", "prof_all", "prof_ops", "verbose", "debug")
DEEPSPEED_KEYS = frozenset(
    {
        *_OWN,
        *_SWITCHES,
        *("activation_checkpointing", "aio", "amp", "autotuning", "bf16", "checkpoint", "comet"),
        *(
            "comms_logger",
            "communication_data_type",
            "compile",
            "compression_training",
            "csv_monitor",
            "curriculum_learning",
        ),
        *("data_efficiency", "data_types", "elasticity", "flops_profiler", "fp16", "gradient_accumulation_steps"),
        *("gradient_allreduce_op", "gradient_clipping", "gradient_predivide_factor", "graph_harvesting", "log_level"),
        *("managed_gradient_accumulation", "prescale_gradients", "progressive_layer_drop"),
        *("seq_parallel_communication_data_type", "sparse_attention", "sparse_gradients", "steps_per_print"),
        *("tensorboard", "timers", "train_batch_size", "train_micro_batch_size_per_gpu"),
        *("use_data_before_expert_parallelism", "vocabulary_size", "wandb", "weight_quantization"),
        "zero_optimization",
    }
)
"""Every top-level key that DeepSpeed 0.19.6 reads: it passes over any other without a word."""


def check_extra_args(config: NeoxConfig) -> None:
    """Raise ConflictError where an extra argument would replace a key of the configuration, or do nothing."""
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
        if key not in DEEPSPEED_KEYS:
            raise ConflictError(f"{path} is no key of DeepSpeed, which would pass over it; {_near(key)}", path)
        _check_value(path, key, value)


def _check_value(path: str, key: str, value: Any) -> None:
    if key in _SWITCHES and not isinstance(value, bool):
        raise ConflictError(f"{path} is {show_value(value)}; true or false is wanted", path)
    if key != "comms_logger":
        return
    if not isinstance(value, dict):
        raise ConflictError(f"{path} is {show_value(value)}; a block of keys is wanted, as {{enabled: true}}", path)
    for name in value:
        if name not in _COMMS_LOGGER:
            inner = f"{path}.{name}"
            raise ConflictError(f"{inner} is no key of DeepSpeed's {key}; {_near(name, _COMMS_LOGGER)}", inner)


def _near(name: str, known: Iterable[str] = DEEPSPEED_KEYS) -> str:
    near = find_nearest(str(name), sorted(set(known) - set(_OWN)))
    return f"did you mean {near}?" if near else "remove it"
