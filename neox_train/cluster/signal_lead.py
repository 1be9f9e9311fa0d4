"""How long before the wall the ranks are told to save."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neox_train.config.cluster import Cluster
from neox_train.config.layout import RunFolder
from neox_train.files import read_json
from neox_train.monitoring.metrics import last_record

_SLURM_SECONDS = 60
"""Slurm's signal may come a minute late."""
_SAFETY = 3
"""A save on a busy file system may take this much longer than the last one."""


def choose_lead_seconds(cluster: Cluster, run: RunFolder) -> int:
    """Signal lead of the next job of ``run``: from its newest checkpoint's save time and its last step time, else the
    profile's; never more than half of the time limit, so that short jobs train at all.
    """
    save_seconds = _measured_save_seconds(run)
    if save_seconds is None:
        return longest_lead_seconds(cluster)
    step_seconds = float((last_record(run.metrics, "train") or {}).get("seconds_per_step") or 0.0)
    return min(_half_limit(cluster), math.ceil(_SLURM_SECONDS + _SAFETY * (save_seconds + step_seconds)))


def longest_lead_seconds(cluster: Cluster) -> int:
    """The profile's lead, within half of the time limit."""
    return min(_half_limit(cluster), cluster.signal_lead_seconds)


def _half_limit(cluster: Cluster) -> int:
    return cluster.time_limit_minutes * 30


def _measured_save_seconds(run: RunFolder) -> float | None:
    for folder in sorted(run.checkpoints.glob("step_*"), reverse=True):
        state = _read(folder / "state.json")
        seconds = (state.get("trainer", {}).get("extra") or {}).get("save_seconds")
        if seconds is not None:
            return float(seconds)
    return None


def _read(file: Path) -> Mapping[str, Any]:
    try:
        content = read_json(file)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
