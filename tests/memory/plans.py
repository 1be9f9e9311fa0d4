"""Plans, configurations and clusters of small runs for the memory tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from neox_train.config.cluster import Cluster, parse_cluster
from neox_train.config.load import load_config
from neox_train.config.schema import NeoxConfig
from neox_train.memory.plan import RankPlan, plan_rank

CASES = Path(__file__).resolve().parents[1] / "cases"
VOCAB_SIZE = 251
"""Not a multiple of the padding, so that padding rows exist."""


def make_cluster(**changes: Any) -> Cluster:
    """Two CPU processes of 2 GiB each; ``changes`` replace facts."""
    return parse_cluster({"device": "cpu", "processes_per_node": 2, "memory_gib_per_process": 2.0, **changes})


def make_gpu_cluster(**changes: Any) -> Cluster:
    """Four GPUs of 40 GiB a node, on Slurm: there are more nodes."""
    gpu = {"type": "A100", "memory_gib": 40.0, "compute_capability": 8.0}
    return parse_cluster({"executor": "slurm", "device": "cuda", "processes_per_node": 4, "gpu": gpu, **changes})


def make_config(*, world_size: int = 2, vocab_size: int = VOCAB_SIZE, **overrides: Any) -> NeoxConfig:
    """The tiny model of the cases with ``overrides`` laid over it, resolved."""
    files = [CASES / "base.yml", CASES / "optimizer.yml"]
    return load_config(files, overrides=overrides, world_size=world_size).with_vocab_size(vocab_size)


def make_plan(*, world_size: int = 2, architecture: dict[str, Any] | None = None, **overrides: Any) -> RankPlan:
    """The plan of one rank of that run on CPUs; ``architecture`` replaces fields of the architecture."""
    plan = plan_rank(make_config(world_size=world_size, **overrides), make_cluster())
    return replace(plan, architecture=replace(plan.architecture, **(architecture or {})))
