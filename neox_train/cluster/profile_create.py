"""A new profile, from what Slurm says of a partition and from what only a person knows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from neox_train.cluster.profile_answers import Answers
from neox_train.cluster.profile_hardware import Hardware, choose_hardware
from neox_train.cluster.slurm_facts import (
    NodeGroup,
    Partition,
    ask_associations,
    ask_configuration,
    ask_node_groups,
    ask_partitions,
)
from neox_train.cluster.slurm_state import Command, run_command
from neox_train.cluster.snakemake_profile import StageLimits
from neox_train.config.cluster_records import Gpu
from neox_train.errors import ConfigError

_DAY_MINUTES = 1440
_PLUGIN_LOOKS_SECONDS = 180


@dataclass(frozen=True)
class ProfileFacts:
    """Everything that a created profile says; texts are empty where nothing is known."""

    name: str
    partition: str
    gpu: Gpu
    processes_per_node: int
    cpus_per_process: int
    memory_per_node: str
    gres_style: str
    gres_type: str
    constraint: str
    cpu_partition: str
    stage_limits: StageLimits
    accounts: tuple[str, ...]
    accounting: bool
    status_command: str
    preempt_mode: str
    time_limit_minutes: int
    results: str
    node_local_scratch: str
    internet: bool
    interface: str
    python: str
    setup: tuple[str, ...]
    slurm_version: str


def gather_profile(
    name: str, answers: Answers, *, setup: Sequence[str] = (), run: Command = run_command
) -> ProfileFacts:
    """Ask Slurm and the person; raises ConfigError when there is no such partition, no GPU, or no safe choice."""
    configuration = ask_configuration(run)
    partitions = ask_partitions(run)
    groups = ask_node_groups(run)
    partition = _choose_partition(answers, partitions, groups)
    style = answers.choose(
        "gres_style", "how GPUs are requested", ("gpus-per-node", "gres", "none"), default=_gres_style(configuration)
    )
    hardware = choose_hardware(answers, partition.name, groups.get(partition.name, []), style)
    processes = answers.number(
        "processes_per_node", "GPUs of a node to use", default=hardware.gpus_per_node, most=hardware.gpus_per_node
    )
    cpus = min(group.cpus for group in hardware.groups) // hardware.gpus_per_node
    cpu_partition = _choose_cpu_partition(answers, partitions)
    associations = ask_associations(run)
    # A day waits less than a week, and a job that reaches the wall goes on in the next one.
    limit = min(partition.max_minutes or _DAY_MINUTES, _DAY_MINUTES)
    return ProfileFacts(
        name=name,
        partition=partition.name,
        gpu=hardware.known.build(hardware.slurm_type),
        processes_per_node=processes,
        cpus_per_process=answers.number("cpus_per_process", "cores of a process", default=max(1, cpus)),
        memory_per_node=_memory(hardware, processes),
        gres_style=style,
        gres_type="" if style == "none" else hardware.gres_type,
        constraint=hardware.constraint,
        cpu_partition=cpu_partition,
        stage_limits=_stage_limits([partitions[name] for name in (partition.name, cpu_partition) if name], groups),
        accounts=tuple(sorted({item.account for item in associations or []})),
        accounting=associations is not None,
        status_command=_status_command(configuration, associations is not None),
        preempt_mode=_preempt_mode(partition, configuration),
        time_limit_minutes=answers.number(
            "time_limit", "minutes of one job", default=limit, most=partition.max_minutes
        ),
        results=answers.text("results", "folder of results", default=_results_folder()),
        node_local_scratch=answers.text("scratch", "folder on a node's own disk", default="${TMPDIR:-/tmp}"),
        internet=answers.choose("internet", "do compute nodes reach the internet", ("yes", "no"), default="no")
        == "yes",
        interface=answers.text("interface", "network interface for NCCL, such as ib0 (empty: its choice)", default=""),
        python=answers.text("python", "interpreter on the compute nodes (empty: this one)", default=""),
        setup=tuple(setup),
        slurm_version=configuration.get("SLURM_VERSION", ""),
    )


def _choose_partition(
    answers: Answers, partitions: dict[str, Partition], groups: dict[str, list[NodeGroup]]
) -> Partition:
    with_gpus = [name for name in partitions if any(group.gpus.count for group in groups.get(name, []))]
    offered = list(partitions) if answers.has("partition") or answers.has("gres_style") else with_gpus
    if not offered:
        raise ConfigError(
            f"no partition has whole GPUs ({', '.join(partitions)}); where nodes have GPUs that Slurm does not count, "
            "give --gres-style none, --partition, --gpu and --processes-per-node"
        )
    default = next((name for name in offered if partitions[name].is_default), None)
    name = answers.choose("partition", "partition", offered, default=offered[0] if len(offered) == 1 else default)
    return partitions[name]


def _choose_cpu_partition(answers: Answers, partitions: dict[str, Partition]) -> str:
    question = "partition without GPUs for tokenize and convert (empty: the same)"
    name = answers.text("cpu_partition", question, default="")
    if name and name not in partitions:
        raise ConfigError(f"--cpu-partition is '{name}'; the partitions are {', '.join(partitions)}")
    return name


def _stage_limits(partitions: Sequence[Partition], groups: dict[str, list[NodeGroup]]) -> StageLimits:
    """What fits every partition that stages run in; a tenth of a node's memory is left to its system."""
    nodes = [group for partition in partitions for group in groups.get(partition.name, [])]
    minutes = [partition.max_minutes for partition in partitions if partition.max_minutes is not None]
    return StageLimits(
        cores=min((group.cpus for group in nodes), default=None),
        minutes=min(minutes, default=None),
        memory_mb=min((int(group.memory_mib * 2**20 / 1e6 * 0.9) for group in nodes), default=None),
    )


def _memory(hardware: Hardware, processes: int) -> str:
    """All of the node with all of its GPUs, else the share of those that are used."""
    if processes == hardware.gpus_per_node:
        return "0"
    smallest = min(group.memory_mib for group in hardware.groups)
    return f"{smallest * processes // hardware.gpus_per_node}M"


def _gres_style(configuration: dict[str, str]) -> str:
    return "gpus-per-node" if "cons_tres" in configuration.get("SelectType", "") else "gres"


def _status_command(configuration: dict[str, str], accounting: bool) -> str:
    age = "".join(character for character in configuration.get("MinJobAge", "") if character.isdigit())
    return "sacct" if accounting and age and int(age) <= _PLUGIN_LOOKS_SECONDS else "squeue"


def _preempt_mode(partition: Partition, configuration: dict[str, str]) -> str:
    if configuration.get("PreemptType", "preempt/none") == "preempt/none":
        return "off"
    known = ("off", "requeue", "cancel", "suspend", "gang")
    return partition.preempt_mode if partition.preempt_mode in known else "off"


def _results_folder() -> str:
    return next((f"${name}/neox-train" for name in ("SCRATCH", "WORK") if os.environ.get(name)), "results")
