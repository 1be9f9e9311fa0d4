"""Tokens, days and jobs: what a training costs at a predicted speed."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from neox_train.config.cluster import Cluster
from neox_train.errors import ConfigError

_TOKENS_A_PARAMETER = 20
"""Hoffmann et al. 2022 (arXiv 2203.15556): about twenty training tokens a parameter for a given compute budget."""
_COUNTS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_SECONDS = {"m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """A whole training: steps, seconds, GPU-hours, jobs up to the wall, and energy where the watts are known."""

    steps: int
    seconds: float
    gpu_hours: float
    jobs: int
    megawatt_hours: float | None

    @property
    def days(self) -> float:
        """Days of training, waiting in the queue not counted."""
        return self.seconds / 86400


def price(seconds_per_step: float, gpus: int, steps: int, cluster: Cluster) -> Cost:
    """The cost of ``steps`` optimizer steps; validation, saving and starting are not counted."""
    seconds = seconds_per_step * steps
    wall = max(60.0, cluster.time_limit_minutes * 60 - cluster.signal_lead_seconds)
    hours = seconds * gpus / 3600
    watts = cluster.gpu.watts if cluster.gpu else None
    return Cost(
        steps=steps,
        seconds=seconds,
        gpu_hours=hours,
        jobs=max(1, math.ceil(seconds / wall)),
        megawatt_hours=hours * watts / 1e6 if watts else None,
    )


def count_steps(tokens: int, global_batch: int, seq_length: int) -> int:
    """Optimizer steps that read at least ``tokens`` tokens."""
    return -(-tokens // (global_batch * seq_length))


def suggest_tokens(parameters: int) -> int:
    """Tokens that suit a model of this size when only training compute counts."""
    return _TOKENS_A_PARAMETER * parameters


def read_tokens(text: str) -> int:
    """``300B``, ``1.5T`` or a plain number of tokens; raises ConfigError for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmbt]?)", text.strip().lower())
    if match is None or float(match[1]) == 0:
        raise ConfigError(f"--tokens {text} is not a number of tokens; write it as 300B, 1.5T or 26000000000")
    return int(float(match[1]) * _COUNTS[match[2]])


def read_seconds(text: str) -> int:
    """``7d``, ``36h`` or ``90m`` in seconds; raises ConfigError for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([mhd])", text.strip().lower())
    if match is None or float(match[1]) == 0:
        raise ConfigError(f"--deadline {text} is not a time; write it as 7d, 36h or 90m")
    return int(float(match[1]) * _SECONDS[match[2]])


def read_nodes(text: str) -> list[int]:
    """``4``, or ``1-16``: both ends and the powers of two between; raises ConfigError for anything else."""
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text.strip())
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= first <= last:
        raise ConfigError(f"--nodes {text} is not a number of nodes; write it as 4, or as 1-16")
    powers = [1 << power for power in range(last.bit_length())]
    return sorted({first, last, *(count for count in powers if first < count < last)})
