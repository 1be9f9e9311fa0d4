"""Changes that make a run fit, each proved by estimating the changed run again."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from neox_train.config.cluster import Cluster
from neox_train.memory.plan import RankPlan

_GIB = 1 << 30
_WANTED = 3
_MOST_SHOWN = 5
_MOST_NODES = 64
_SHORTEST_SEQUENCE = 128

Estimator = Callable[[RankPlan], int]


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change, or several together, with the keys to set and the memory they lead to."""

    change: str
    keys: dict[str, Any]
    total: int
    fits: bool
    """Whether the changed run passes the gate."""

    def to_dict(self) -> dict[str, Any]:
        """The remedy as memory.json holds it."""
        return {"change": self.change, "keys": self.keys, "total_gib": self.total / _GIB, "fits": self.fits}


@dataclass(frozen=True, slots=True)
class _Step:
    """One kind of change at one strength."""

    kind: str
    change: str
    keys: dict[str, Any]
    apply: Callable[[RankPlan], RankPlan]


def find_remedies(plan: RankPlan, budget: int, cluster: Cluster, estimate: Estimator) -> list[Remedy]:
    """Changes that pass the gate, the gentlest first: single ones, then pairs, and so on until there are three.

    Every one keeps the global batch. Where nothing passes, the changes that save most are returned, marked so.
    """
    limit = int(cluster.gate.refuse_above * budget)
    kinds = [list(steps) for steps in _list_steps(plan, cluster) if steps]
    found: list[Remedy] = []
    for count in range(1, len(kinds) + 1):
        tried = [_try_together(plan, chosen, limit, estimate) for chosen in itertools.combinations(kinds, count)]
        fitting = sorted((remedy for remedy in tried if remedy.fits), key=lambda remedy: remedy.total, reverse=True)
        found += [remedy for remedy in fitting if not _repeats(remedy, found)]
        if len(found) >= _WANTED:
            return found[:_MOST_SHOWN]
    if found:
        return found
    strongest = [_try_together(plan, chosen, limit, estimate) for chosen in itertools.combinations(kinds, 1)]
    strongest.append(_try_together(plan, tuple(kinds), limit, estimate))
    return sorted(strongest, key=lambda remedy: remedy.total)[:_WANTED]


def _try_together(plan: RankPlan, kinds: tuple[list[_Step], ...], limit: int, estimate: Estimator) -> Remedy:
    """The gentlest strengths of these kinds that fit together; the strongest where none do."""
    best: Remedy | None = None
    for steps in _escalate(kinds):
        changed = plan
        for step in steps:
            changed = step.apply(changed)
        total = estimate(changed)
        best = _join(steps, changed, total, limit)
        if best.fits:
            return best
    assert best is not None
    return best


def _escalate(kinds: tuple[list[_Step], ...]) -> Iterator[list[_Step]]:
    """Strengths raised together, each kind at most at its own strongest."""
    for strength in range(max(len(steps) for steps in kinds)):
        yield [steps[min(strength, len(steps) - 1)] for steps in kinds]


def _join(steps: list[_Step], changed: RankPlan, total: int, limit: int) -> Remedy:
    keys: dict[str, Any] = {}
    for step in steps:
        keys.update(step.keys)
    if keys.keys() & {"train_micro_batch_size_per_gpu", "nodes"}:
        keys["train_micro_batch_size_per_gpu"] = changed.micro_batch
        keys["gradient_accumulation_steps"] = changed.accumulation_steps
    return Remedy(" and ".join(step.change for step in steps), keys, total, total <= limit)


def _repeats(remedy: Remedy, found: list[Remedy]) -> bool:
    """Whether a smaller set of the same changes is already there."""
    return any(other.keys.items() <= remedy.keys.items() for other in found)


def _list_steps(plan: RankPlan, cluster: Cluster) -> Iterator[list[_Step]]:
    """Kinds of change in the order of what they cost the user, each with its strengths, gentlest first."""
    yield _halve_micro_batch(plan)
    yield _recompute_activations(plan)
    yield _raise_zero_stage(plan)
    yield _use_bf16(plan)
    yield _use_8bit_states(plan)
    yield _add_nodes(plan, cluster)
    yield _shorten_sequence(plan)


def _halve_micro_batch(plan: RankPlan) -> list[_Step]:
    steps = []
    size = plan.micro_batch
    while size % 2 == 0:
        size //= 2
        steps.append(_micro_batch_step(plan, size))
    if size > 1:
        steps.append(_micro_batch_step(plan, 1))
    return steps


def _micro_batch_step(plan: RankPlan, size: int) -> _Step:
    factor = plan.micro_batch // size
    return _Step(
        "micro_batch",
        f"micro-batch {size} with {factor} times the gradient accumulation steps",
        {"train_micro_batch_size_per_gpu": size},
        lambda p: replace(p, micro_batch=size, accumulation_steps=p.accumulation_steps * p.micro_batch // size),
    )


def _recompute_activations(plan: RankPlan) -> list[_Step]:
    if plan.checkpoint_layers == 1:
        return []
    return [
        _Step(
            "checkpointing",
            "activation checkpointing of every layer",
            {"checkpoint_activations": True, "checkpoint_num_layers": 1},
            lambda p: replace(p, checkpoint_layers=1),
        )
    ]


def _raise_zero_stage(plan: RankPlan) -> list[_Step]:
    if plan.data_parallel_size == 1:
        return []
    return [
        _Step(
            "zero",
            f"ZeRO stage {stage}",
            {"zero_optimization.stage": stage},
            lambda p, stage=stage: replace(p, zero_stage=stage),  # type: ignore[misc]
        )
        for stage in (1, 2)
        if stage > plan.zero_stage
    ]


def _use_bf16(plan: RankPlan) -> list[_Step]:
    if plan.precision != "fp32":
        return []
    return [
        _Step(
            "bf16",
            "bf16 weights and activations",
            {"precision": "bfloat16"},
            lambda p: replace(p, precision="bfloat16", accumulation_bytes=4, communication_bytes=2),
        )
    ]


def _use_8bit_states(plan: RankPlan) -> list[_Step]:
    if plan.optimizer != "adam":
        return []
    return [
        _Step("8bit", "8-bit Adam states", {"use_bnb_optimizer": True}, lambda p: replace(p, optimizer="adam_8bit"))
    ]


def _add_nodes(plan: RankPlan, cluster: Cluster) -> list[_Step]:
    """More ranks for the same global batch: ZeRO shares states over them, and each takes fewer sequences."""
    nodes = max(1, plan.data_parallel_size // cluster.processes_per_node)
    steps = []
    factor = 2
    while nodes * factor <= _MOST_NODES and (plan.micro_batch * plan.accumulation_steps) % factor == 0:
        steps.append(
            _Step(
                "nodes",
                f"{nodes * factor} nodes",
                {"nodes": nodes * factor},
                lambda p, factor=factor: _spread(p, factor),  # type: ignore[misc]
            )
        )
        factor *= 2
    return steps


def _spread(plan: RankPlan, factor: int) -> RankPlan:
    sequences = plan.micro_batch * plan.accumulation_steps // factor
    size = min(plan.micro_batch, sequences)
    while sequences % size:
        size -= 1
    return replace(
        plan,
        data_parallel_size=plan.data_parallel_size * factor,
        micro_batch=size,
        accumulation_steps=sequences // size,
    )


def _shorten_sequence(plan: RankPlan) -> list[_Step]:
    steps = []
    length = plan.architecture.seq_length // 2
    while length >= _SHORTEST_SEQUENCE:
        steps.append(
            _Step(
                "sequence",
                f"sequences of {length} tokens",
                {"seq_length": length},
                lambda p, length=length: replace(  # type: ignore[misc]
                    p, architecture=replace(p.architecture, seq_length=length)
                ),
            )
        )
        length //= 2
    return steps
