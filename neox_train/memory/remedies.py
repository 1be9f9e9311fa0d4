"""Changes that make a run fit, each proved by estimating the changed run again."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from neox_train.config.cluster import Cluster
from neox_train.memory.changes import Change, list_changes, list_smaller_models
from neox_train.memory.plan import RankPlan

_GIB = 1 << 30
_WANTED = 3
_MOST_SHOWN = 5

Estimator = Callable[[RankPlan], int]


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change, or several together, with the keys to set and the memory in bytes that they lead to."""

    change: str
    keys: dict[str, Any]
    total: int
    fits: bool
    """Whether the changed run stays within the limit that was asked for."""
    plan: RankPlan
    """The most loaded rank of the changed run."""
    tokens_per_second_per_gpu: float | None = None
    """Predicted speed; None where the cluster file does not say what the prediction needs."""
    calibrated: bool = False
    """Whether that speed comes from rates measured on this hardware."""

    def to_dict(self) -> dict[str, Any]:
        """The remedy as memory.json holds it."""
        return {
            "change": self.change,
            "keys": self.keys,
            "total_gib": self.total / _GIB,
            "fits": self.fits,
            "tokens_per_second_per_gpu": self.tokens_per_second_per_gpu,
            "speed_calibrated": self.calibrated,
        }


def find_remedies(plan: RankPlan, limit: int, cluster: Cluster, estimate: Estimator, stages: int = 1) -> list[Remedy]:
    """Changes that lead to at most ``limit`` bytes: single ones, then pairs, and so on until there are three.

    Stronger ones fill up where those are fewer, then smaller models. Where nothing is enough, those that save most are
    returned, all changes together among them, marked so. ``stages`` is the number of pipeline stages.
    """
    kinds = list_changes(plan, cluster, stages)
    found: list[Remedy] = []
    for count in range(1, len(kinds) + 1):
        tried = [_try_together(plan, chosen, limit, estimate) for chosen in itertools.combinations(kinds, count)]
        fitting = [remedy for remedy in tried if remedy.fits and not _repeats(remedy, found)]
        found += sorted(fitting, key=lambda remedy: remedy.total, reverse=True)
        if len(found) >= _WANTED:
            break
    if len(found) >= _WANTED:
        return found[:_MOST_SHOWN]
    if found:
        found += _list_stronger(plan, kinds, limit, estimate, found)
    if len(found) < _WANTED and (smaller := list_smaller_models(plan, stages)):
        found += _list_smaller(plan, kinds, smaller, limit, estimate)
    if found:
        return found[:_WANTED]
    if not kinds:
        return []
    strongest = [_try_together(plan, (kind,), limit, estimate) for kind in kinds]
    strongest.append(_try_together(plan, kinds, limit, estimate))
    return sorted(strongest, key=lambda remedy: remedy.total)[:_WANTED]


def _list_smaller(
    plan: RankPlan, kinds: Sequence[list[Change]], smaller: list[Change], limit: int, estimate: Estimator
) -> list[Remedy]:
    """Smaller models: the largest that fits alone, larger ones that fit beside other changes, then smaller ones."""
    found: list[Remedy] = []
    largest = 0
    for count in range(len(kinds) + 1):
        for beside in itertools.combinations(kinds, count):
            remedy = _try_together(plan, (*beside, smaller), limit, estimate)
            # A change beside it must buy layers.
            if remedy.fits and remedy.keys["num_layers"] > largest:
                found.append(remedy)
        largest = max((remedy.keys["num_layers"] for remedy in found), default=0)
        if len(found) >= _WANTED:
            return found
    alone = [_join(plan, (change,), limit, estimate) for change in smaller]
    return [*found, *(remedy for remedy in alone if remedy.fits and remedy not in found)]


def _list_stronger(
    plan: RankPlan, kinds: Sequence[list[Change]], limit: int, estimate: Estimator, found: list[Remedy]
) -> list[Remedy]:
    """Single changes and pairs at every other strength that fits, the gentlest first."""
    chosen = [
        changes
        for count in (1, 2)
        for group in itertools.combinations(kinds, count)
        for changes in itertools.product(*group)
    ]
    tried = [_join(plan, changes, limit, estimate) for changes in chosen]
    fitting = [remedy for remedy in tried if remedy.fits and not _repeats(remedy, found)]
    return sorted(fitting, key=lambda remedy: remedy.total, reverse=True)


def _try_together(plan: RankPlan, kinds: Sequence[list[Change]], limit: int, estimate: Estimator) -> Remedy:
    """The gentlest strengths of these kinds that fit together; the strongest where none do."""
    strongest = _join(plan, [kind[-1] for kind in kinds], limit, estimate)
    if not strongest.fits:
        return strongest
    chosen = [len(kind) - 1 for kind in kinds]
    best = strongest
    # Each kind is eased on its own, the one that costs the user most first.
    for index in reversed(range(len(kinds))):
        while chosen[index] > 0:
            gentler = [*chosen[:index], chosen[index] - 1, *chosen[index + 1 :]]
            eased = _join(plan, [kind[place] for kind, place in zip(kinds, gentler, strict=True)], limit, estimate)
            if not eased.fits:
                break
            chosen, best = gentler, eased
    return best


def _join(plan: RankPlan, changes: Sequence[Change], limit: int, estimate: Estimator) -> Remedy:
    changed = plan
    keys: dict[str, Any] = {}
    for change in changes:
        changed = change.apply(changed)
        keys.update(change.keys)
    if keys.keys() & {"train_micro_batch_size_per_gpu", "nodes"}:
        keys["train_micro_batch_size_per_gpu"] = changed.micro_batch
        keys["gradient_accumulation_steps"] = changed.accumulation_steps
    if "zero_optimization.stage" in keys:
        # Several changes may ask for one.
        keys["zero_optimization.stage"] = changed.zero_stage
    total = estimate(changed)
    return Remedy(" and ".join(_word(change, changed) for change in changes), keys, total, total <= limit, changed)


def _word(change: Change, changed: RankPlan) -> str:
    """The change's own words, unless another one beside it, such as more nodes, made the micro-batch smaller still."""
    size = change.keys.get("train_micro_batch_size_per_gpu", changed.micro_batch)
    return change.words if size == changed.micro_batch else f"micro-batch {changed.micro_batch}"


def _repeats(remedy: Remedy, found: list[Remedy]) -> bool:
    """Whether a smaller set of the same changes is there already, or does as much."""
    return any(
        other.keys.items() <= remedy.keys.items() or (other.change in remedy.change and other.total <= remedy.total)
        for other in found
    )
