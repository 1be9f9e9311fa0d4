"""What a device can compute: a configuration it cannot run is refused before anything is queued."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neox_train.config.conflict import ConflictError
from neox_train.config.schema import NeoxConfig

if TYPE_CHECKING:
    from neox_train.config.cluster import Cluster

_FP8_CAPABILITY = 8.9
_BFLOAT16_CAPABILITY = 8.0


def uses_fp8(config: NeoxConfig) -> bool:
    """Whether FP8 is switched on; the te_fp8_* parameters alone do not."""
    return config.te_fp8 or config.te_fp8_recipe is not None or config.te_fp8_mha


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


def _require_gpu(config: NeoxConfig, cluster: Cluster) -> None:
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
