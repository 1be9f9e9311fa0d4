"""The gate: whether an estimate fits what a process may use."""

from __future__ import annotations

from typing import Literal

from neox_train.config.cluster import Cluster, Gate
from neox_train.errors import ConfigError

Verdict = Literal["fits", "tight", "does_not_fit"]

_GIB = 1 << 30


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
