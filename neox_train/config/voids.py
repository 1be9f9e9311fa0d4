"""Keys that the value of another key leaves nothing to do: the one table that says so.

A key is missing here where it always acts, or where a path that another file may yet name decides. Nothing here
depends on the machine: what a device leaves undone is said when a training starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from neox_train.config.decay_span import default_decay_iters
from neox_train.config.fp8 import uses_fp8
from neox_train.config.optimizer import ZERO_DEFAULTS
from neox_train.config.precision import FP16_DEFAULTS, names_bfloat16
from neox_train.config.reader import find_place, show_value
from neox_train.config.schema import NeoxConfig, NeoxKeys


@dataclass(frozen=True, slots=True)
class Void:
    """A circumstance in which a key has nothing to do."""

    holds: Callable[[NeoxConfig], bool]
    reason: Callable[[NeoxConfig], str]


def _unless(key: str, *values: Any) -> Void:
    """Void where ``key`` has none of ``values``."""
    return Void(lambda config: getattr(config, key) not in values, lambda config: _say(config, key))


def _where(key: str, *values: Any) -> Void:
    """Void where ``key`` has one of ``values``."""
    return Void(lambda config: getattr(config, key) in values, lambda config: _say(config, key))


def _if(holds: Callable[[NeoxConfig], bool], reason: str) -> Void:
    return Void(holds, lambda _: reason)


def _say(config: NeoxConfig, key: str) -> str:
    return f"{key} is {show_value(getattr(config, key))}"


_BY_DEVIATION = ("normal", "scaled_normal", "single_residual_scaled_normal")
_NO_STAGES = _where("pipe_parallel_size", 0, 1)
_ONE_SHARD = _where("model_parallel_size", 1)
_KEPT = _where("checkpoint_activations", False)
_NO_MUP = _where("use_mup", False)
_NO_VALIDATION = _where("eval_iters", 0)
_NO_ROTATION = _unless("pos_emb", "rotary")
_POWERSGD = _unless("gradient_compression", "powersgd", "auto")
_LOCAL_UPDATE = _unless("gradient_compression", "local_update", "auto")
_NO_HISTORY = Void(
    lambda config: uses_fp8(config) and config.te_fp8_recipe not in (None, "delayed"),
    lambda config: _say(config, "te_fp8_recipe"),
)
_NO_SPAN = Void(
    lambda config: config.lr_decay_style in ("constant", "inverse_sqrt") and config.warmup == 0,
    lambda config: f"{_say(config, 'lr_decay_style')} and warmup is 0",
)
_NO_DEVIATION = Void(
    lambda config: not {config.init_method, config.output_layer_init_method} & set(_BY_DEVIATION),
    lambda config: f"{_say(config, 'init_method')} and {_say(config, 'output_layer_init_method')}",
)
_WHOLE_BLOCKS_BY_TE = _if(
    lambda config: config.te_mha and config.te_layernorm_mlp, "te_mha and te_layernorm_mlp hold every such matrix"
)
_STATIC_SCALE = Void(
    lambda config: bool((config.fp16 or {}).get("loss_scale")), lambda _: "fp16.loss_scale is not 0, so it never moves"
)
_NOT_FP16 = _unless("precision", "fp16")
_HALVED_AT_ONCE = _if(lambda config: config.zero_stage == 0, "zero_optimization.stage 0 halves the scale at once")
_STAGE_0 = _if(lambda config: config.zero_stage == 0, "zero_optimization.stage is 0")
_BELOW_STAGE_3 = Void(
    lambda config: config.zero_stage < 3, lambda config: f"zero_optimization.stage is {config.zero_stage}"
)
_ENABLED_DECIDES = _if(lambda _: True, "enabled alone decides")
_NO_SCALE = _if(lambda _: True, "bfloat16 needs no loss scale")
OWN_CHECKPOINTS = _if(lambda _: True, "checkpoints are this project's own, not DeepSpeed's")

VOIDS: dict[str, tuple[Void, ...]] = {
    "global_num_gpus": (
        Void(
            lambda config: config.global_num_gpus != config.world_size,
            lambda config: f"{config.world_size} processes are started",
        ),
    ),
    "sequence_parallel": (_ONE_SHARD,),
    "pipe_partition_method": (_NO_STAGES,),
    "bias_gelu_fusion": (
        _unless("activation", "gelu"),
        _if(lambda config: config.te_layernorm_mlp, "te_layernorm_mlp has the tanh form anyway"),
    ),
    "layernorm_epsilon": (_where("norm", "rmsnorm", "te_rmsnorm", "scalenorm"),),
    "rms_norm_epsilon": (_unless("norm", "rmsnorm", "te_rmsnorm"),),
    "scalenorm_epsilon": (_unless("norm", "scalenorm"),),
    "rotary_pct": (_NO_ROTATION,),
    "rotary_emb_base": (_NO_ROTATION,),
    "init_method_std": (_NO_DEVIATION,),
    "base_shapes_file": (
        _NO_MUP,
        _if(lambda config: "mup_base_hidden_size" in config.places, "mup_base_hidden_size says it"),
    ),
    "mup_init_scale": (_NO_MUP,),
    "mup_embedding_mult": (_NO_MUP,),
    "sliding_window_width": (_if(lambda config: set(config.attention_layers) == {"local"}, "every layer is local"),),
    "sparsity_config": (_if(lambda config: "local" not in config.attention_layers, "no layer is local"),),
    "te_columnparallel": (
        _if(
            lambda config: config.te_mha and config.te_layernorm_mlp and not config.no_weight_tying,
            "te_mha, te_layernorm_mlp and the tied embedding leave no such matrix",
        ),
    ),
    "te_rowparallel": (_WHOLE_BLOCKS_BY_TE,),
    "te_fp8_amax_history_len": (_NO_HISTORY,),
    "te_fp8_amax_compute_algo": (_NO_HISTORY,),
    "te_fp8_margin": (_NO_HISTORY,),
    "gradient_predivide_factor": (
        _if(lambda config: config.prescale_gradients, "prescale_gradients divides by all replicas before"),
    ),
    "fp32_allreduce": (_where("precision", "fp32"),),
    "sparse_gradients": (
        _if(
            lambda config: config.sparse_gradients == "auto" and not config.no_weight_tying,
            "no_weight_tying is false, and the output touches every row",
        ),
    ),
    "min_lr": (_where("lr_decay_style", "constant"),),
    "wsd_decay_fraction": (_unless("lr_decay_style", "wsd"),),
    "lr_decay_iters": (_NO_SPAN,),
    "lr_decay_fraction": (
        _if(
            lambda config: config.lr_decay_iters != default_decay_iters(config.train_iters, config.lr_decay_fraction),
            "lr_decay_iters says the same in steps",
        ),
        _NO_SPAN,
    ),
    "powersgd_rank": (_POWERSGD,),
    "powersgd_start_step": (_POWERSGD,),
    "local_update_steps": (_LOCAL_UPDATE,),
    "local_update_start_step": (_LOCAL_UPDATE,),
    "local_update_lr": (_LOCAL_UPDATE,),
    "local_update_momentum": (_LOCAL_UPDATE,),
    "checkpoint_num_layers": (_KEPT,),
    "partition_activations": (
        _KEPT,
        _ONE_SHARD,
        _if(lambda config: config.sequence_parallel, "sequence_parallel shares them out already"),
    ),
    "checkpoint_in_cpu": (_KEPT,),
    "finetune": (
        _if(
            lambda config: not config.load or config.load == config.save,
            "load names no folder but the run's own, whose checkpoints go on whole",
        ),
    ),
    "checkpoint_scale": (_where("checkpoint_factor", None),),
    "weighted_sampler_alpha": (_where("weight_by_num_documents", False),),
    "merge_file": (
        Void(
            lambda config: config.tokenizer_type.lower() not in ("gpt2bpetokenizer", "hfgpt2tokenizer"),
            lambda config: _say(config, "tokenizer_type"),
        ),
    ),
    "valid_data_paths": (_NO_VALIDATION,),
    "test_data_paths": (_NO_VALIDATION,),
    "valid_data_weights": (_NO_VALIDATION,),
    "test_data_weights": (_NO_VALIDATION,),
    "valid_label_data_paths": (_NO_VALIDATION,),
    "test_label_data_paths": (_NO_VALIDATION,),
    "eval_interval": (_NO_VALIDATION,),
    "steps_per_print": (_if(lambda config: config.pipe_parallel_size > 1, "pipeline stages print no such lines"),),
    "fp16.fp16": (_ENABLED_DECIDES,),
    "fp16.type": (
        Void(lambda config: not names_bfloat16(config.fp16), lambda _: "enabled alone decides, unless it is bfloat16"),
    ),
    "bf16.bf16": (_ENABLED_DECIDES,),
    "bf16.type": (_ENABLED_DECIDES,),
    **{
        f"bf16.{name}": (_NO_SCALE,)
        for name in ("loss_scale", "loss_scale_window", "initial_scale_power", "hysteresis", "min_loss_scale")
    },
    "fp16.loss_scale": (_NOT_FP16,),
    "fp16.auto_cast": (_NOT_FP16,),
    "fp16.initial_scale_power": (_NOT_FP16, _STATIC_SCALE),
    "fp16.loss_scale_window": (_NOT_FP16, _STATIC_SCALE),
    "fp16.hysteresis": (_NOT_FP16, _STATIC_SCALE, _HALVED_AT_ONCE),
    "fp16.consecutive_hysteresis": (_NOT_FP16, _STATIC_SCALE, _HALVED_AT_ONCE),
    "fp16.min_loss_scale": (_NOT_FP16, _STATIC_SCALE),
    "data_types.grad_accum_dtype": (_unless("precision", "bfloat16"),),
    "zero_optimization.overlap_comm": (_STAGE_0,),
    "zero_optimization.reduce_scatter": (_STAGE_0,),
    "zero_optimization.reduce_bucket_size": (_STAGE_0,),
    "zero_optimization.contiguous_gradients": (_STAGE_0,),
    "zero_optimization.allgather_partitions": (_STAGE_0,),
    "zero_optimization.round_robin_gradients": (_STAGE_0,),
    "zero_optimization.sub_group_size": (_BELOW_STAGE_3,),
    "zero_optimization.stage3_prefetch_bucket_size": (_BELOW_STAGE_3,),
    "zero_optimization.stage3_param_persistence_threshold": (_BELOW_STAGE_3,),
    "zero_optimization.stage3_model_persistence_threshold": (_BELOW_STAGE_3,),
    "zero_optimization.stage3_max_live_parameters": (_BELOW_STAGE_3,),
    "zero_optimization.stage3_max_reuse_distance": (_BELOW_STAGE_3,),
    "zero_optimization.stage3_module_granularity_threshold": (_BELOW_STAGE_3,),
    "zero_optimization.stage3_use_all_reduce_for_fetch_params": (_BELOW_STAGE_3,),
    "zero_optimization.stage3_allgather_sequential": (_BELOW_STAGE_3,),
    "zero_optimization.memory_efficient_linear": (_BELOW_STAGE_3,),
    "zero_optimization.log_trace_cache_warnings": (_BELOW_STAGE_3,),
    "zero_optimization.load_from_fp32_weights": (OWN_CHECKPOINTS,),
    "zero_optimization.pipeline_loading_checkpoint": (OWN_CHECKPOINTS,),
    "zero_optimization.stage3_gather_16bit_weights_on_model_save": (OWN_CHECKPOINTS,),
    "zero_optimization.stage3_gather_fp16_weights_on_model_save": (OWN_CHECKPOINTS,),
}
"""By key, dotted inside a block: what leaves it nothing to do, the first that holds."""

_BLOCK_DEFAULTS = {"fp16": FP16_DEFAULTS, "bf16": FP16_DEFAULTS, "zero_optimization": ZERO_DEFAULTS}


def list_voids(config: NeoxConfig) -> list[str]:
    """One sentence for each key that is written with another value than its default and has nothing to do."""
    sentences = []
    for path, voids in VOIDS.items():
        place = find_place(config.places, path)
        if place is None or _is_default(config, path):
            continue
        void = next((void for void in voids if void.holds(config)), None)
        if void is not None:
            sentences.append(f"{place}: {path} has no effect here: {void.reason(config)}")
    return sentences


def is_void(config: NeoxConfig, path: str) -> bool:
    """Whether a key has nothing to do under ``config``, whatever its value."""
    return any(void.holds(config) for void in VOIDS.get(path, ()))


def _is_default(config: NeoxConfig, path: str) -> bool:
    block, _, name = path.partition(".")
    if name:
        value, default = (getattr(config, block) or {}).get(name), _BLOCK_DEFAULTS.get(block, {}).get(name)
        return not value if default is None else bool(value is None or value == default)
    field = NeoxKeys.model_fields[path]
    return bool(getattr(config, path) == field.get_default(call_default_factory=True))
