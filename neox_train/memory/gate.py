"""The gate: whether an estimate fits its budget, and whether the cluster can train the configuration at all."""

from __future__ import annotations

from typing import Literal

from neox_train.config import support
from neox_train.config.cluster import Cluster, Gate
from neox_train.config.schema import NeoxConfig
from neox_train.errors import ConfigError

Verdict = Literal["fits", "tight", "does_not_fit"]

_GIB = 1 << 30
_BF16_CAPABILITY = 8.0


def judge(total_bytes: int, budget_bytes: int, gate: Gate) -> Verdict:
    """``fits`` up to the warning limit, ``tight`` up to the refusal limit (limits included), else ``does_not_fit``."""
    fraction = total_bytes / budget_bytes
    if fraction <= gate.warn_above:
        return "fits"
    return "tight" if fraction <= gate.refuse_above else "does_not_fit"


def read_budget(cluster: Cluster) -> int:
    """Bytes one process may use; raises ConfigError where the cluster file does not say."""
    if cluster.memory_budget_gib is None:
        raise ConfigError(
            f"the cluster file of '{cluster.name}' does not say how much memory a process may use; "
            "set memory_gib_per_process (device cpu) or gpu.memory_gib (device cuda)"
        )
    return int(cluster.memory_budget_gib * _GIB)


def require_trainable(config: NeoxConfig, cluster: Cluster) -> None:
    """Raise before anything is queued when the configuration needs what is not built or what the hardware lacks."""
    support.require_trainable(config)
    if cluster.device == "cpu":
        if config.precision == "fp16":
            raise ConfigError(
                f"precision is fp16, but '{cluster.name}' trains on CPUs, where fp16 is not supported; "
                "set `precision: bfloat16` and remove the fp16 block"
            )
        return
    capability = cluster.gpu.compute_capability if cluster.gpu else 0.0
    if config.precision == "bfloat16" and capability < _BF16_CAPABILITY:
        raise ConfigError(
            f"precision is bfloat16, but the GPUs of '{cluster.name}' have compute capability {capability:g} and bf16 "
            f"needs {_BF16_CAPABILITY:g}; set `precision: fp16`"
        )
