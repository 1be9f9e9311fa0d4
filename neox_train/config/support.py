"""What training supports today: the one table that says so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from neox_train.config.compression import list_compression_problems, list_sparse_problems
from neox_train.config.conflict import lead
from neox_train.config.fp8 import TE_ACTIVATIONS, uses_transformer_engine
from neox_train.config.hardware import TE_LAYER_KEYS, require_hardware
from neox_train.config.implementations import Implementations
from neox_train.config.keys import find_refused, is_off, read_remedy
from neox_train.config.layer_kinds import BUILT_LAYERS
from neox_train.config.offload import list_offload_problems
from neox_train.config.one_bit import ONE_BIT_TYPES
from neox_train.config.passed_over import ADAM_KINDS, PASSED_OVER_PARAMS
from neox_train.config.reader import find_place, show_value
from neox_train.config.reduction import list_reduction_problems
from neox_train.config.refusals import list_block_refusals
from neox_train.config.schema import NeoxConfig, NeoxKeys
from neox_train.config.zeropp import list_zeropp_problems
from neox_train.errors import ConfigError, NotBuiltError

if TYPE_CHECKING:
    from neox_train.config.cluster import Cluster

SUPPORTED: dict[str, tuple[object, ...]] = {
    "zero_stage": (0, 1, 2, 3),
    "norm": ("layernorm", "rmsnorm", "non_parametric_layernorm", "te_layernorm", "te_rmsnorm"),
    "pos_emb": ("rotary", "learned", "sinusoidal", "alibi", "none"),
    "activation": (
        "gelu",
        "relu",
        "squared_relu",
        "silu",
        "swish",
        "mish",
        "softsign",
        "geglu",
        "swiglu",
        "reglu",
        "glu",
        "bilinear",
    ),
    "optimizer_type": ("adam", "adamw", "cpu_adam", "cpu_torch_adam", "sgd", "lion", "muon", *ONE_BIT_TYPES.values()),
}
"""Values with an implementation, for keys that have both kinds."""

OPTIMIZER_PARAMS: dict[str, tuple[str, ...]] = {
    "adam": ("lr", "betas", "eps"),
    "adamw": ("lr", "betas", "eps"),
    "cpu_adam": ("lr", "betas", "eps"),
    "cpu_torch_adam": ("lr", "betas", "eps"),
    "sgd": ("lr", "momentum", "dampening", "nesterov"),
    "lion": ("lr", "betas"),
    "muon": ("lr", "momentum", "nesterov", "ns_steps", "betas", "eps"),
    "onebitadam": ("lr", "betas", "eps", "freeze_step"),
    "zerooneadam": (
        "lr",
        "betas",
        "eps",
        "var_freeze_step",
        "var_update_scaler",
        "local_step_scaler",
        "local_step_clipper",
    ),
    "onebitlamb": ("lr", "betas", "eps", "freeze_step", "max_coeff", "min_coeff"),
}
"""Parameters each optimizer reads; those that only choose between implementations of one arithmetic are passed over."""

_WRITTEN_AS = {"optimizer_type": "optimizer.type", "zero_stage": "zero_optimization.stage"}

EIGHT_BIT_TYPES = ("adam", "adamw", "lion")
"""Optimizers whose states can be kept in 8 bits."""

_LOCAL_WINDOW = ("block", "num_local_blocks", "num_sliding_window_blocks")


def list_unsupported(config: NeoxConfig) -> list[str]:
    """One phrase for each key whose value is known but not built: ``te_mha: true``."""
    return [
        *_list_refused(config),
        *_list_outside_table(config),
        *_list_optimizer(config),
        *list_block_refusals(config, "zero_optimization"),
        *list_zeropp_problems(config),
        *list_offload_problems(config),
        *_list_recomputation(config),
        *_list_transformer_engine(config),
        *_list_attention(config),
        *list_compression_problems(config),
        *list_sparse_problems(config),
        *list_reduction_problems(config),
    ]


def _list_refused(config: NeoxConfig) -> list[str]:
    values = dict(config)
    return [
        f"{name}: {show_value(values[name])} ({read_remedy(field)})"
        for name, field in find_refused(NeoxKeys.model_fields, values)
    ]


def _list_outside_table(config: NeoxConfig) -> list[str]:
    problems = []
    for name, values in SUPPORTED.items():
        if getattr(config, name) not in values:
            known = ", ".join(str(value) for value in values)
            problems.append(
                f"{_WRITTEN_AS.get(name, name)}: {show_value(getattr(config, name))} (built: {known}; set one of them)"
            )
    strange = sorted(set(config.attention_layers) - set(BUILT_LAYERS))
    if strange:
        problems.append(f"attention_config: {', '.join(strange)} (built: {', '.join(BUILT_LAYERS)}; set one of them)")
    return problems


def _list_optimizer(config: NeoxConfig) -> list[str]:
    kind = config.optimizer_type
    if kind not in OPTIMIZER_PARAMS:
        return []
    read = (*OPTIMIZER_PARAMS[kind], *PASSED_OVER_PARAMS.get(kind, ()))
    params = (config.optimizer or {}).get("params", {})
    problems = [
        f"optimizer.params.{name}: {show_value(value)} of {kind} (remove it; read: {', '.join(OPTIMIZER_PARAMS[kind])})"
        for name, value in params.items()
        if name not in read and not is_off(value)
    ]
    if kind in ADAM_KINDS:
        problems += [
            f"optimizer.params.{name}: false (remove it: {reason})"
            for name, reason in (
                ("adam_w_mode", "weight decay is decoupled from the gradient here"),
                ("bias_correction", "moments are corrected here"),
            )
            if params.get(name) is False
        ]
    if config.use_bnb_optimizer and kind not in EIGHT_BIT_TYPES:
        problems.append(f"use_bnb_optimizer with optimizer.type {kind} (set optimizer.type: Adam or Lion)")
    if config.bnb_paged and not config.use_bnb_optimizer:
        problems.append("bnb_paged: true without use_bnb_optimizer (set it to true)")
    if config.use_mup and kind not in ("adam", "adamw"):
        problems.append(f"use_mup with optimizer.type {kind} (set optimizer.type: Adam)")
    if config.use_mup and config.te_mha:
        problems.append("use_mup with te_mha (set te_mha: false)")
    if kind == "muon":
        problems += _list_muon(config)
    return problems


def _list_muon(config: NeoxConfig) -> list[str]:
    """Muon orthogonalises whole matrices: ZeRO's slices are put together for it, tensor-parallel ones are not."""
    if config.model_parallel_size > 1:
        return ["optimizer.type Muon with model_parallel_size above 1 (set 1; ZeRO and pipeline stages go with Muon)"]
    return []


def _list_recomputation(config: NeoxConfig) -> list[str]:
    if config.checkpoint_granularity == "selective" and not config.checkpoint_activations:
        return ["checkpoint_granularity: selective without checkpoint_activations (set it to true)"]
    return []


def _list_transformer_engine(config: NeoxConfig) -> list[str]:
    if not uses_transformer_engine(config):
        return []
    problems = []
    layers = ", ".join(_name_te_layers(config))
    if config.pipe_parallel_size > 1:
        problems.append(f"{layers} with pipe_parallel_size above 1 (set 1)")
    if config.precision == "fp32":
        problems.append(f"{layers} with precision fp32, in which none was run (set precision: bfloat16)")
    if config.zero_stage == 3:
        problems.append(f"{layers} with zero_optimization.stage 3 (set 0, 1 or 2)")
    if config.te_mha or config.te_layernorm_mlp:
        if config.gpt_j_residual and config.gpt_j_tied:
            problems.append("gpt_j_tied with te_mha or te_layernorm_mlp (set them to false)")
        activation = "gelu_tanh" if config.activation == "gelu" else config.activation
        if config.te_layernorm_mlp and activation not in TE_ACTIVATIONS:
            built = ", ".join(TE_ACTIVATIONS).replace("gelu_tanh", "gelu")
            problems.append(f"activation {config.activation} with te_layernorm_mlp (set it to one of {built})")
        if config.norm == "non_parametric_layernorm":
            problems.append("norm non_parametric_layernorm with te_mha or te_layernorm_mlp (set them to false)")
    elif config.te_fp8_first_last_layers_bf16 and config.gpt_j_residual and config.gpt_j_tied:
        problems.append("te_fp8_first_last_layers_bf16 with gpt_j_tied (set it to 0)")
    return problems


def _name_te_layers(config: NeoxConfig) -> list[str]:
    """The keys that ask for Transformer Engine's layers: ``te_mha``, ``norm te_rmsnorm``."""
    norm = [f"norm {config.norm}"] if config.norm.startswith("te_") else []
    return [*norm, *(name for name in TE_LAYER_KEYS if getattr(config, name))]


def _list_attention(config: NeoxConfig) -> list[str]:
    problems = []
    if config.use_qk_layernorm and config.model_parallel_size > 1:
        problems.append("use_qk_layernorm with model_parallel_size above 1 (its norm is over all heads; set 1)")
    if config.te_mha or config.te_fp8_mha:
        chosen = {
            "pos_emb: 'alibi'": config.pos_emb == "alibi",
            "use_qk_layernorm": config.use_qk_layernorm,
            "sliding_window_width": config.sliding_window_width is not None,
            "local layers": "local" in config.attention_layers,
            "document_attention": config.document_attention,
        }
        problems += [f"{name} with te_mha (set te_mha: false)" for name, is_set in chosen.items() if is_set]
    if config.use_qk_layernorm and config.num_kv_heads not in (None, config.num_attention_heads):
        problems.append(
            "use_qk_layernorm with num_kv_heads below num_attention_heads "
            "(one norm serves both; set use_qk_layernorm: false)"
        )
    strange = sorted(set(config.sparsity_config) - set(_LOCAL_WINDOW))
    if "local" in config.attention_layers and strange:
        problems.append(f"sparsity_config.{', '.join(strange)} (built: {', '.join(_LOCAL_WINDOW)}; remove it)")
    return problems


def locate_problem(config: NeoxConfig, problem: str) -> str:
    """A phrase of ``list_unsupported`` led by the file and line of the first of its keys that is written somewhere."""
    for word in re.findall(r"[a-z][a-z0-9_.]+", problem.split(" (")[0]):
        path = word.rstrip(".")
        place = config.places.get(path) or (find_place(config.places, path) if "." in path else None)
        if place is not None:
            return f"{place}: {problem}"
    return problem


def require_trainable(config: NeoxConfig, cluster: Cluster | None = None) -> None:
    """``require_built``, and ConfigError where no number of steps is set."""
    require_built(config, cluster)
    if config.train_iters is None:
        sentence = "train_iters is not set; set it to the number of optimizer steps"
        raise ConfigError(lead(config.places, sentence, "train_iters"))


def require_built(config: NeoxConfig, cluster: Cluster | None = None) -> None:
    """Raise NotBuiltError, one sentence naming every key, when the configuration needs what is not built.

    With a cluster also ConfigError when its device cannot run the configuration, and NotBuiltError where the keys of
    speed and recomputation do not hold together there; without one where they do on no device.
    """
    problems = [locate_problem(config, problem) for problem in list_unsupported(config)]
    if problems:
        raise NotBuiltError(f"this configuration needs what is not built yet: {'; '.join(problems)}")
    if cluster is not None:
        require_hardware(config, cluster)
        Implementations.choose(config, cluster.device)
    else:
        Implementations.require_some(config)
