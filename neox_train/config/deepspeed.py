"""The DeepSpeed configuration of a resolved run."""

from __future__ import annotations

import copy
from typing import Any

from neox_train.config.compression import choose_communication_type
from neox_train.config.offload import offloads_optimizer, offloads_weights
from neox_train.config.refusals import drop_refused
from neox_train.config.schema import NeoxConfig

_FP16_KEYS = (
    "enabled",
    "auto_cast",
    "loss_scale",
    "initial_scale_power",
    "loss_scale_window",
    "hysteresis",
    "consecutive_hysteresis",
    "min_loss_scale",
)


def deepspeed_json(config: NeoxConfig) -> dict[str, Any]:
    """JSON for ``deepspeed.initialize``: batches, ZeRO, number formats, and clipping always as an explicit number.

    It has no optimizer block: the optimizer is built here and handed over.
    """
    result: dict[str, Any] = {
        "train_batch_size": config.train_micro_batch_size_per_gpu
        * config.gradient_accumulation_steps
        * config.data_parallel_size,
        "train_micro_batch_size_per_gpu": config.train_micro_batch_size_per_gpu,
        "gradient_accumulation_steps": config.gradient_accumulation_steps,
        "gradient_clipping": config.gradient_clipping,
        "zero_optimization": copy.deepcopy(drop_refused("zero_optimization", dict(config.zero_optimization or {}))),
        "zero_allow_untested_optimizer": True,
        "steps_per_print": config.steps_per_print,
        "prescale_gradients": config.prescale_gradients,
        "gradient_predivide_factor": config.gradient_predivide_factor,
        "wall_clock_breakdown": False,
    }
    if config.pipe_parallel_size > 1:
        # Its own printing every so many steps goes around every log level; activations are sent whole, because under
        # sequence parallelism each tensor-parallel rank has others.
        result["steps_per_print"] = 2**62
        result["pipeline"] = {"pipe_partitioned": False, "grad_partitioned": False}
    if config.precision == "fp16":
        block = dict(config.fp16 or {})
        result["fp16"] = {key: block[key] for key in _FP16_KEYS if key in block}
    if config.precision == "bfloat16":
        result["bf16"] = {"enabled": True}
        result.update(_accumulation_json(config, result["zero_optimization"]))
    if (communicated := choose_communication_type(config)) is not None:
        result["communication_data_type"] = communicated
    for name, is_used in (
        ("offload_optimizer", offloads_optimizer(config)),
        ("offload_param", offloads_weights(config)),
    ):
        if not is_used:
            result["zero_optimization"].pop(name, None)
    if offloads_optimizer(config):
        # torch's fused AdamW steps on a CPU too, and needs no compiler at the first use.
        result["zero_force_ds_cpu_optimizer"] = False
    for key, value in (config.deepspeed_extra_args or {}).items():
        result[key] = copy.deepcopy(value)
    return result


def _accumulation_json(config: NeoxConfig, zero: dict[str, Any]) -> dict[str, Any]:
    """How bf16 gradients add up, in the words that DeepSpeed 0.19.6 takes.

    At ZeRO stage 0 it has one format for weights and sums, and training itself widens the sums; only a pipeline gets an
    optimizer that shares out its states whatever the stage, which is that of stage 1.
    """
    types = dict(config.data_types or {"grad_accum_dtype": "fp32"})
    if zero.get("stage", 0) > 0:
        return {"data_types": types}
    if config.pipe_parallel_size > 1:
        return {"data_types": types, "zero_optimization": {**zero, "stage": 1}}
    return {"data_types": {**types, "grad_accum_dtype": "bf16"}}


def flat_masters_json(config: NeoxConfig) -> dict[str, Any]:
    """JSON for an fp32 engine without ZeRO or clipping: flat master weights do both, and the cast to bf16."""
    result = deepspeed_json(config)
    for key in ("bf16", "data_types", "communication_data_type"):
        result.pop(key, None)
    return {**result, "zero_optimization": {"stage": 0}, "gradient_clipping": 0.0}
