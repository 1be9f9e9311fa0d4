"""The layouts that a search tries: what each changes of a configuration, and the plans that follow."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from neox_train.config.cluster import Cluster
from neox_train.config.run import resolve_files
from neox_train.config.schema import NeoxConfig
from neox_train.config.support import require_trainable
from neox_train.errors import ConfigError, NotBuiltError
from neox_train.memory.plan import OptimizerKind, RankPlan, plan_stages
from neox_train.memory.search.precisions import PrecisionChange, list_precisions

_MICRO_BATCHES = (1, 2, 4, 8, 16, 32)
_STAGES = (1, 2, 4, 8, 16)
_ZERO_STAGES = (0, 1, 2, 3)


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """One way to lay a run out; ``plans`` holds one rank of each pipeline stage."""

    nodes: int
    tensor_parallel: int
    stages: int
    zero_stage: int
    plans: tuple[RankPlan, ...]
    precision: PrecisionChange = field(default_factory=PrecisionChange)
    """Number formats that are not the configuration's own."""

    @property
    def plan(self) -> RankPlan:
        """The first stage's rank."""
        return self.plans[0]

    @property
    def keys(self) -> dict[str, Any]:
        """Keys that lay a configuration out so."""
        plan = self.plan
        keys: dict[str, Any] = {
            "model_parallel_size": self.tensor_parallel,
            "pipe_parallel_size": self.stages,
            "zero_optimization.stage": self.zero_stage,
            "train_micro_batch_size_per_gpu": plan.micro_batch,
            "gradient_accumulation_steps": plan.accumulation_steps,
            "train_batch_size": plan.global_batch,
            "checkpoint_activations": plan.checkpoint_layers > 0,
        }
        if plan.checkpoint_layers:
            keys["checkpoint_num_layers"] = plan.checkpoint_layers
        if plan.optimizer == "adam_8bit":
            keys["use_bnb_optimizer"] = True
        return {**dict(self.precision.keys), **keys}


@dataclass(slots=True)
class Refusals:
    """Layouts that cannot be trained, by reason, each with one sentence that says more."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str, example: str = "") -> None:
        """Count one layout that lost for ``reason``."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        self.examples.setdefault(reason, example)


def list_layouts(
    files: Sequence[Path],
    cluster: Cluster,
    nodes: int,
    base: NeoxConfig,
    refusals: Refusals,
    allowed: frozenset[str] = frozenset({"optimizer"}),
) -> Iterator[Layout]:
    """Every layout on ``nodes`` nodes that the configuration's rules allow and training supports, same global batch.

    Tensor-parallel groups stay inside a node. Number formats and the optimizer's states change where ``allowed`` names
    them. What is refused is counted in ``refusals``.
    """
    precisions = list_precisions(base, allowed)
    gpus = nodes * cluster.processes_per_node
    for tensor in _list_divisors(cluster.processes_per_node):
        for stages in _STAGES:
            if gpus % (tensor * stages):
                continue
            replicas = gpus // (tensor * stages)
            if base.train_batch_size % replicas:
                refusals.add("the global batch is not a multiple of the replicas")
                continue
            for zero_stage, precision in itertools.product(_ZERO_STAGES, precisions):
                skeleton = Layout(
                    nodes=nodes,
                    tensor_parallel=tensor,
                    stages=stages,
                    zero_stage=zero_stage,
                    plans=(),
                    precision=precision,
                )
                try:
                    plans = _resolve(files, cluster, skeleton, base, base.train_batch_size // replicas)
                except NotBuiltError as error:
                    refusals.add("not built", str(error))
                except ConfigError as error:
                    refusals.add("a rule of the configuration", str(error))
                else:
                    yield from _vary(replace(skeleton, plans=plans), base, allowed)


def _resolve(
    files: Sequence[Path], cluster: Cluster, skeleton: Layout, base: NeoxConfig, sequences: int
) -> tuple[RankPlan, ...]:
    """Plans of single-sequence micro-batches, from the configuration itself: its rules decide what is legal."""
    overrides = dict(skeleton.precision.keys) | {
        "model_parallel_size": skeleton.tensor_parallel,
        "pipe_parallel_size": skeleton.stages,
        "zero_optimization.stage": skeleton.zero_stage,
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": sequences,
        "train_batch_size": base.train_batch_size,
    }
    config = resolve_files(files, cluster, nodes=skeleton.nodes, overrides=overrides)
    config = config.with_vocab_size(base.vocab_size or config.vocab_size or 1)
    require_trainable(config, cluster)
    return tuple(plan_stages(config, cluster))


def _vary(skeleton: Layout, base: NeoxConfig, allowed: frozenset[str]) -> Iterator[Layout]:
    sequences = skeleton.plan.accumulation_steps
    own = skeleton.plan.optimizer
    optimizers: tuple[OptimizerKind, ...] = (own,)
    if own == "adam" and "optimizer" in allowed:
        optimizers = (own, "adam_8bit")
    recomputed = max(1, base.checkpoint_num_layers)
    for size in _MICRO_BATCHES:
        if sequences % size:
            continue
        for checkpoint_layers in (0, recomputed):
            for optimizer in optimizers:
                plans = tuple(
                    replace(
                        plan,
                        micro_batch=size,
                        accumulation_steps=sequences // size,
                        checkpoint_layers=checkpoint_layers,
                        optimizer=optimizer,
                    )
                    for plan in skeleton.plans
                )
                yield replace(skeleton, plans=plans)


def _list_divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
