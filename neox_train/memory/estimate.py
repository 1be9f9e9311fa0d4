"""The memory estimate of a run: the most loaded rank, part by part, against what a process may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from neox_train.config.architecture import Architecture
from neox_train.config.cluster import Cluster, Gate
from neox_train.config.compression import list_candidates
from neox_train.config.parameters import count_parameters
from neox_train.config.schema import NeoxConfig
from neox_train.memory.calibration import Calibration
from neox_train.memory.gate import Verdict, judge, read_budget
from neox_train.memory.host import count_host
from neox_train.memory.machine import Machine, MachineUse, weigh_machine
from neox_train.memory.phases import PARTS, list_phases
from neox_train.memory.plan import RankPlan, plan_stages
from neox_train.memory.process import count_cached, count_process, is_calibrated
from neox_train.memory.remedies import Remedy, find_remedies
from neox_train.memory.throughput.rates import read_rates
from neox_train.memory.throughput.step import predict_step

_GIB = 1 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryEstimate:
    """Predicted peak of one rank; all sizes in bytes.

    ``parts`` are those of the phase that is the peak and add up to ``total``; ``phases`` are the totals of all.
    """

    parts: dict[str, int]
    total: int
    budget: int
    verdict: Verdict
    peak_phase: str
    phases: dict[str, int]
    parameters: int
    budget_name: str
    """Whose memory the budget is, as a sentence ends: ``of its A100``."""
    gate: Gate
    calibrated: bool
    """Whether the process's own share was measured on such a device."""
    measurable: int
    """Bytes of ``total`` that a run's ``peak_memory_gib`` is compared with."""
    shown: int | None = None
    """Bytes that nvidia-smi is expected to show while the card has room; None without a GPU."""
    host: dict[str, int] = field(default_factory=dict)
    """Bytes of host memory by part, beside a GPU's; empty where the device is the CPU."""
    host_budget: int | None = None
    """Bytes of it that the cluster file gives a process."""
    calibration: Calibration | None = None
    """The site's own fit, which the parts contain."""
    remedies: tuple[Remedy, ...] = field(default=())
    machine: MachineUse | None = None
    """What all ranks need of this machine; None where they do not start on it."""

    @property
    def passes(self) -> bool:
        """Whether the gate lets the run start: each rank fits what it may use, and all of them the machine."""
        return self.verdict != "does_not_fit" and (self.machine is None or self.machine.fits)

    @property
    def fraction(self) -> float:
        """Share of the budget that is used."""
        return self.total / self.budget

    @property
    def sentence(self) -> str:
        """The verdict with its numbers, in one sentence."""
        from neox_train.memory.wording import word_verdict

        return word_verdict(self)

    def _list_machine(self) -> dict[str, float] | None:
        if self.machine is None:
            return None
        return {"needed": self.machine.needed / _GIB, "total": self.machine.machine.total / _GIB}

    def to_dict(self) -> dict[str, Any]:
        """The content of memory.json; sizes in GiB, the exact bytes beside them."""
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "total_gib": self.total / _GIB,
            "budget_gib": self.budget / _GIB,
            "fraction": self.fraction,
            "parameters": self.parameters,
            "peak_phase": self.peak_phase,
            "parts_gib": {name: size / _GIB for name, size in self.parts.items()},
            "parts_bytes": dict(self.parts),
            "phases_gib": {name: size / _GIB for name, size in self.phases.items()},
            "measurable_gib": self.measurable / _GIB,
            "shown_gib": self.shown / _GIB if self.shown is not None else None,
            "host_gib": {name: size / _GIB for name, size in self.host.items()} or None,
            "machine_gib": self._list_machine(),
            "calibrated": self.calibrated,
            "calibration": asdict(self.calibration) if self.calibration else None,
            "gate": {"warn_above": self.gate.warn_above, "refuse_above": self.gate.refuse_above},
            "remedies": [remedy.to_dict() for remedy in self.remedies],
        }


def estimate_memory(
    config: NeoxConfig, cluster: Cluster, calibration: Calibration | None = None, machine: Machine | None = None
) -> MemoryEstimate:
    """Estimate the peak of the most loaded rank, with a site's ``calibration`` where there is one.

    With a ``machine`` the ranks that start on it are weighed against its memory together, and their shares of it are
    the budget of CPU processes where the cluster file names none. ``config`` is resolved for its world size and
    vocabulary. Raises NotBuiltError for what the estimate does not cover and ConfigError where no memory is named.
    """
    count = partial(total_bytes, calibration=calibration)
    # What `auto` chooses is known when the training starts: it must fit with any.
    layouts = [plan_stages(config.with_compression(method), cluster) for method in list_candidates(config)]
    stages = max(layouts, key=lambda plans: max(map(count, plans)))
    plan = max(stages, key=count)
    budget = _choose_budget(cluster, machine)
    phases = list_phase_parts(plan, calibration)
    peak = max(phases, key=lambda name: sum(phases[name].values()))
    total = sum(phases[peak].values())
    verdict = judge(total, budget, cluster.gate)
    host = max((count_host(stage) for stage in stages), key=lambda parts: sum(parts.values()))
    return MemoryEstimate(
        parts=phases[peak],
        total=total,
        budget=budget,
        verdict=verdict,
        peak_phase=peak,
        phases={name: sum(parts.values()) for name, parts in phases.items()},
        parameters=count_parameters(Architecture.from_config(config)),
        budget_name=_name_budget(cluster),
        gate=cluster.gate,
        calibrated=is_calibrated(plan) or calibration is not None,
        calibration=calibration,
        remedies=_find_remedies(plan, stages, verdict, budget, cluster, count),
        measurable=count_measurable(phases, plan),
        shown=count_shown(phases, plan),
        host=host,
        host_budget=_read_host_budget(cluster),
        machine=weigh_machine(config, cluster, sum(host.values()) if host else total, machine),
    )


def list_phase_parts(plan: RankPlan, calibration: Calibration | None = None) -> dict[str, dict[str, int]]:
    """Every phase of a step with all its parts in bytes, those of the process too."""
    phases = list_phases(plan)
    result = {}
    for phase in phases:
        process = count_process(plan, phase, phases)
        parts = {
            **phase.parts,
            "allocator": process.allocator,
            "communicators": process.communicators,
            "process": process.base,
        }
        constant = "workspaces" if plan.device == "cuda" else "process"
        result[phase.name] = calibration.apply(parts, constant=constant) if calibration else parts
    return result


def total_bytes(plan: RankPlan, calibration: Calibration | None = None) -> int:
    """Predicted peak of a plan, in bytes."""
    return max(sum(parts.values()) for parts in list_phase_parts(plan, calibration).values())


def count_measurable(phases: Mapping[str, Mapping[str, int]], plan: RankPlan) -> int:
    """Bytes at the peak of what a run's ``peak_memory_gib`` measures: torch's tensors on a GPU, else the process."""
    names = PARTS if plan.device == "cuda" else (*PARTS, "allocator", "process")
    return max(sum(parts[name] for name in names) for parts in phases.values())


def count_shown(phases: Mapping[str, Mapping[str, int]], plan: RankPlan) -> int | None:
    """Bytes that nvidia-smi shows of a process whose allocator need not give anything back; None without a GPU."""
    if plan.device == "cpu":
        return None
    process = max(parts["process"] + parts["communicators"] for parts in phases.values())
    return count_measurable(phases, plan) + count_cached(plan, list_phases(plan)) + process


def _find_remedies(
    plan: RankPlan,
    stages: Sequence[RankPlan],
    verdict: Verdict,
    budget: int,
    cluster: Cluster,
    count: Callable[[RankPlan], int],
) -> tuple[Remedy, ...]:
    """What makes a refused run pass, and what takes a tight one below the warning."""
    if verdict == "fits":
        return ()
    fraction = cluster.gate.refuse_above if verdict == "does_not_fit" else cluster.gate.warn_above
    limit = int(fraction * budget)

    def count_worst(changed: RankPlan) -> int:
        return max(count(other) for other in _list_stages(changed, stages))

    remedies = find_remedies(plan, limit, cluster, count_worst, len(stages))
    return tuple(_add_speed(remedy, stages, cluster) for remedy in remedies)


def _list_stages(changed: RankPlan, stages: Sequence[RankPlan]) -> list[RankPlan]:
    """Every stage's plan after a change of one of them: the change may make another the most loaded."""
    if len(stages) == 1:
        return [changed]
    moved = []
    for stage in stages:
        layers = {name: getattr(stage.architecture, name) for name in ("num_layers", "attention_layers")}
        plan = replace(
            changed,
            architecture=replace(changed.architecture, **layers),
            links=stage.links,
            following_stages=stage.following_stages,
        )
        moved.append(plan)
    return moved


def _add_speed(remedy: Remedy, stages: Sequence[RankPlan], cluster: Cluster) -> Remedy:
    """The remedy with its predicted speed, where the cluster file has the rates."""
    changed = remedy.plan
    rates = read_rates(cluster, changed.precision)
    if rates is None:
        return remedy
    step = predict_step(_list_stages(changed, stages), rates)
    if step is None:
        return remedy
    return replace(remedy, tokens_per_second_per_gpu=step.tokens_per_second_per_gpu, calibrated=step.calibrated)


def _read_host_budget(cluster: Cluster) -> int | None:
    """On a machine with GPUs the file's memory of a process is the host's."""
    if cluster.device == "cpu" or cluster.memory_gib_per_process is None:
        return None
    return int(cluster.memory_gib_per_process * _GIB)


def _name_budget(cluster: Cluster) -> str:
    if cluster.device == "cuda" and cluster.gpu is not None:
        return f"of its {cluster.gpu.type}"
    if cluster.memory_gib_per_process is None:
        return "that are its share of this machine"
    return "it may use by `memory_gib_per_process`"


def _choose_budget(cluster: Cluster, machine: Machine | None) -> int:
    if machine is not None and cluster.device == "cpu" and cluster.memory_gib_per_process is None:
        return machine.total // cluster.processes_per_node
    return read_budget(cluster)
