"""What a device can compute: a configuration it cannot run is refused before anything is queued."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neox_train.config.conflict import ConflictError
from neox_train.config.fp8 import uses_fp8, uses_transformer_engine
from neox_train.config.offload import offloads_optimizer
from neox_train.config.schema import NeoxConfig
from neox_train.config.zeropp import list_quantised

if TYPE_CHECKING:
    from neox_train.config.cluster import Cluster

TE_LAYER_KEYS = ("te_mha", "te_layernorm_mlp", "te_columnparallel", "te_rowparallel")
"""Keys that put Transformer Engine's layers in the place of plain ones."""
HOST_OPTIMIZERS = ("cpu_adam", "cpu_torch_adam")
"""Optimizers for weights in host memory: those of a training on CPUs."""

_FP8_CAPABILITY = 8.9
_MXFP8_CAPABILITY = 10.0
_BLOCKWISE_CAPABILITY = 9.0
_FP8_ATTENTION_CAPABILITY = 9.0
_BFLOAT16_CAPABILITY = 8.0


def require_hardware(config: NeoxConfig, cluster: Cluster) -> None:
    """Raise ConfigError, one sentence with the remedy, when the cluster's device cannot run the configuration."""
    try:
        if cluster.device == "cpu":
            _require_cpu(config, cluster)
        else:
            _require_gpu(config, cluster)
    except ConflictError as conflict:
        raise conflict.locate(config.places, f"the run on '{cluster.name}'") from None


def _require_cpu(config: NeoxConfig, cluster: Cluster) -> None:
    if config.precision == "fp16":
        raise ConflictError(
            f"precision fp16 does not train on the CPUs of '{cluster.name}'; set precision: bfloat16 "
            "(and fp16.enabled: false), or precision: fp32",
            "precision",
            "fp16.enabled",
        )
    if uses_fp8(config):
        raise ConflictError(
            f"FP8 needs a GPU, '{cluster.name}' has CPUs; remove {_name_switch(config)}", _name_switch(config)
        )
    if uses_transformer_engine(config):
        raise _refuse_transformer_engine(config, cluster)

    if quantised := list_quantised(config):
        raise ConflictError(
            f"{quantised[0]} needs a GPU, '{cluster.name}' has CPUs; remove it (zero_hpz_partition_size runs here)",
            "zero_optimization",
        )
    if config.bnb_paged:
        raise ConflictError(
            f"paged optimizer states need a GPU, '{cluster.name}' has CPUs; remove bnb_paged", "bnb_paged"
        )


def _refuse_transformer_engine(config: NeoxConfig, cluster: Cluster) -> ConflictError:
    keys = {name: "false" for name in TE_LAYER_KEYS if getattr(config, name)}
    if config.norm.startswith("te_"):
        keys["norm"] = config.norm.removeprefix("te_")
    written = ", ".join(f"{name}: {config.norm if name == 'norm' else 'true'}" for name in keys)
    remedy = ", ".join(f"{name}: {value}" for name, value in keys.items())
    return ConflictError(
        f"Transformer Engine needs a GPU, '{cluster.name}' has CPUs; instead of {written} set {remedy}", *keys
    )


def _require_gpu(config: NeoxConfig, cluster: Cluster) -> None:
    if config.optimizer_type in HOST_OPTIMIZERS and not offloads_optimizer(config):
        raise ConflictError(
            f"optimizer.type {config.optimizer_type} steps weights in host memory, but '{cluster.name}' trains on "
            "GPUs; set optimizer.type: Adam, or zero_optimization.offload_optimizer: {device: cpu}",
            "optimizer.type",
        )
    if cluster.gpu is None:
        return
    kind, capability = cluster.gpu.type, cluster.gpu.compute_capability
    if uses_fp8(config) and capability < _FP8_CAPABILITY:
        switch = _name_switch(config)
        raise ConflictError(
            f"FP8 needs compute capability {_FP8_CAPABILITY} (L40S, H100, H200), {kind} of '{cluster.name}' has "
            f"{capability}; remove {switch} and train in precision: bfloat16",
            switch,
        )
    if config.te_fp8_recipe == "mxfp8" and capability < _MXFP8_CAPABILITY:
        raise ConflictError(
            f"te_fp8_recipe mxfp8 needs compute capability {_MXFP8_CAPABILITY} (B200), {kind} of '{cluster.name}' has "
            f"{capability}; set te_fp8_recipe: current",
            "te_fp8_recipe",
        )
    if config.te_fp8_recipe == "blockwise" and capability < _BLOCKWISE_CAPABILITY:
        raise ConflictError(
            f"te_fp8_recipe blockwise needs compute capability {_BLOCKWISE_CAPABILITY} (H100), {kind} of "
            f"'{cluster.name}' has {capability}; set te_fp8_recipe: delayed",
            "te_fp8_recipe",
        )
    if config.te_fp8_mha and capability < _FP8_ATTENTION_CAPABILITY:
        raise ConflictError(
            f"te_fp8_mha needs compute capability {_FP8_ATTENTION_CAPABILITY} (H100), {kind} of '{cluster.name}' has "
            f"{capability}; set te_fp8_mha: false and te_fp8: true",
            "te_fp8_mha",
        )
    if config.precision == "bfloat16" and capability < _BFLOAT16_CAPABILITY:
        raise ConflictError(
            f"bfloat16 needs compute capability {_BFLOAT16_CAPABILITY} (A100), {kind} of '{cluster.name}' has "
            f"{capability}; set precision: fp16",
            "precision",
            "bf16.enabled",
        )


def _name_switch(config: NeoxConfig) -> str:
    if config.te_fp8:
        return "te_fp8"
    return "te_fp8_recipe" if config.te_fp8_recipe is not None else "te_fp8_mha"
