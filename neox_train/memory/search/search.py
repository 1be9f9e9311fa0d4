"""The search: layouts in the order of predicted speed, the first that fit win."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from neox_train.config.cluster import Cluster
from neox_train.config.schema import NeoxConfig
from neox_train.errors import ConfigError
from neox_train.memory.calibration import Calibration
from neox_train.memory.estimate import total_bytes
from neox_train.memory.gate import read_budget
from neox_train.memory.search.layouts import Layout, Refusals, list_layouts
from neox_train.memory.throughput.rates import read_rates
from neox_train.memory.throughput.step import StepTime, predict_step

_SHOWN = 10
_MOST_ESTIMATES = 150
"""Memory estimates for one number of nodes: the answer stays a matter of seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A layout that fits, with its predicted memory in bytes and its step."""

    layout: Layout
    memory: int
    step: StepTime


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The winners on every number of nodes, fastest first, and why the others lost."""

    choices: tuple[Choice, ...]
    refusals: Refusals
    limit: int
    """Bytes that a rank may need: the gate's warning limit."""


def search_layouts(
    files: Sequence[Path],
    cluster: Cluster,
    nodes: Sequence[int],
    base: NeoxConfig,
    calibration: Calibration | None = None,
    allowed: frozenset[str] = frozenset({"optimizer"}),
) -> Found:
    """Up to ten layouts for each number of nodes, all below the gate's warning limit and with the global batch kept.

    ``calibration`` is the site's own fit of the memory model; ``allowed`` says what of the numerics may change
    (search/precisions.py). Raises ConfigError where the cluster file does not say what predictions need.
    """
    _require_rates(cluster, base)
    limit = int(cluster.gate.warn_above * read_budget(cluster))
    refusals = Refusals()
    choices: list[Choice] = []
    for count in nodes:
        layouts = list_layouts(files, cluster, count, base, refusals, allowed)
        choices += _choose(_time_all(layouts, cluster, refusals), _Memories(limit, calibration), refusals)
    return Found(choices=tuple(choices), refusals=refusals, limit=limit)


def _require_rates(cluster: Cluster, base: NeoxConfig) -> None:
    if read_rates(cluster, base.precision or "bfloat16") is None:
        raise ConfigError(
            f"the cluster file of '{cluster.name}' does not say how fast its GPUs are for {base.precision}; "
            "set gpu.peak_tflops and gpu.memory_gb_per_second"
        )


def _time_all(layouts: Iterable[Layout], cluster: Cluster, refusals: Refusals) -> list[tuple[StepTime, Layout]]:
    """The layouts with their predicted steps, fastest first."""
    timed = []
    for layout in layouts:
        rates = read_rates(cluster, layout.plan.precision)
        step = predict_step(layout.plans, rates) if rates else None
        if rates is None:
            refusals.add(f"the cluster file does not say how fast its GPUs are for {layout.plan.precision}")
        elif step is None:
            refusals.add("the cluster file does not say network.gb_per_second")
        else:
            timed.append((step, layout))
    return sorted(timed, key=_rank)


def _rank(timed: tuple[StepTime, Layout]) -> tuple[float, ...]:
    """By predicted time; of equal ones the own number formats, the simplest cut, and the largest micro-batch."""
    step, layout = timed
    cuts = (layout.stages, layout.tensor_parallel, layout.zero_stage)
    # Rounded, so that sums in another order do not decide.
    return (round(step.total, 9), bool(layout.precision.keys), *cuts, -layout.plan.micro_batch)


def _choose(timed: list[tuple[StepTime, Layout]], memories: _Memories, refusals: Refusals) -> list[Choice]:
    """The first that fit; 8-bit states only where Adam's do not fit, other number formats only where they gain.

    Where all layouts have 8-bit states they are the configuration's own, and stay.
    """
    is_tried = any(layout.plan.optimizer == "adam" for _, layout in timed)
    found: list[Choice] = []
    shapes: set[tuple[object, ...]] = set()
    for place, (step, layout) in enumerate(timed):
        if len(found) == _SHOWN or memories.estimates > _MOST_ESTIMATES:
            for _ in timed[place:]:
                refusals.add("slower than those shown" if len(found) == _SHOWN else "not looked at: the search's limit")
            break
        if is_tried and layout.plan.optimizer == "adam_8bit" and memories.fits(_with_adam(layout)):
            refusals.add("8-bit states that are not needed: Adam's fit")
        elif layout.precision.keys and _shape(layout) in shapes:
            refusals.add("another precision that is no faster")
        elif not memories.fits(layout):
            refusals.add("does not fit")
        else:
            shapes.add(_shape(layout))
            found.append(Choice(layout=layout, memory=memories.count(layout), step=step))
    return found


def _shape(layout: Layout) -> tuple[object, ...]:
    plan = layout.plan
    parallel = (layout.tensor_parallel, layout.stages, layout.zero_stage)
    return (*parallel, plan.micro_batch, plan.checkpoint_layers, plan.optimizer)


def _with_adam(layout: Layout) -> Layout:
    return replace(layout, plans=tuple(replace(plan, optimizer="adam") for plan in layout.plans))


class _Memories:
    """Memory by layout, estimated once, and not at all where a smaller micro-batch does not fit already."""

    def __init__(self, limit: int, calibration: Calibration | None) -> None:
        self._limit, self._calibration = limit, calibration
        self._known: dict[Layout, int] = {}
        self._too_large: dict[tuple[object, ...], int] = {}
        self.estimates = 0

    def fits(self, layout: Layout) -> bool:
        plan = layout.plan
        fixed = (layout.precision, layout.tensor_parallel, layout.stages, layout.zero_stage, plan.optimizer)
        kind = (*fixed, plan.checkpoint_layers)
        # What does not fit with recomputed activations does not fit with kept ones.
        kinds = (kind, (*fixed, max(1, plan.checkpoint_layers)))
        if any(plan.micro_batch >= self._too_large.get(other, 1 << 30) for other in kinds):
            return False
        if self.count(layout) <= self._limit:
            return True
        self._too_large[kind] = min(plan.micro_batch, self._too_large.get(kind, 1 << 30))
        return False

    def count(self, layout: Layout) -> int:
        if layout not in self._known:
            self.estimates += 1
            self._known[layout] = max(total_bytes(plan, self._calibration) for plan in layout.plans)
        return self._known[layout]
