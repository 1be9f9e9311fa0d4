"""Login-side checks against Slurm: does the profile's request fit the partition, the account and the nodes?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from neox_train.cluster.check import Check, fail, passed, skip, warn
from neox_train.cluster.gpu_table import find_gpus
from neox_train.cluster.gres import NodeGpus, parse_gres
from neox_train.cluster.requests import request_options, stage_requests
from neox_train.cluster.slurm_facts import (
    Partition,
    ask_associations,
    ask_configuration,
    ask_nodes,
    ask_partitions,
)
from neox_train.cluster.slurm_state import Command, run_command
from neox_train.config.cluster import Cluster
from neox_train.errors import ConfigError

_PLUGIN_LOOKS_SECONDS = 180


def check_slurm(cluster: Cluster, nodes: int, options: Mapping[str, Any], run: Command = run_command) -> list[Check]:
    """Every check that needs only Slurm's commands.

    ``nodes`` is the largest request of the runs, ``options`` are those of the Snakemake profile (config.yaml).
    """
    try:
        configuration = ask_configuration(run)
        partitions = ask_partitions(run)
    except ConfigError as error:
        return [fail("Slurm", str(error), "start on a login node, with the cluster's Slurm commands on PATH")]
    checks = [passed("Slurm", f"{configuration.get('ClusterName', '')} {configuration.get('SLURM_VERSION', '')}")]
    partition, check = _find_partition(cluster, partitions)
    checks.append(check)
    if partition:
        checks += _check_limits(cluster, partition, nodes)
        checks += _check_account(cluster, partition, run)
        checks += _check_nodes(cluster, partition, run)
        checks.append(_check_preemption(cluster, partition, configuration))
        checks.append(_check_request("request", request_options(cluster, nodes), run))
        checks += [
            _check_request(f"request of {stage}", words, run) for stage, words in stage_requests(cluster, options)
        ]
    checks.append(_check_ended_jobs(configuration, options.get("slurm-status-command")))
    return checks


def _find_partition(cluster: Cluster, partitions: dict[str, Partition]) -> tuple[Partition | None, Check]:
    name = cluster.partition or next((found.name for found in partitions.values() if found.is_default), None)
    if name is None:
        remedy = f"--config partition=NAME or NEOX_TRAIN_PARTITION, one of {', '.join(partitions)}"
        return None, fail("partition", "none named, and Slurm has no default", remedy)
    partition = partitions.get(name)
    if partition is None:
        return None, fail("partition", f"there is no {name}", f"set partition: to one of {', '.join(partitions)}")
    origin = "" if cluster.partition else " (Slurm's default: the profile names none)"
    if partition.state != "UP":
        return partition, warn("partition", f"{name} is {partition.state}", "jobs wait until the site opens it")
    return partition, passed("partition", f"{name}, {partition.node_count} nodes{origin}")


def _check_limits(cluster: Cluster, partition: Partition, nodes: int) -> list[Check]:
    limit, wanted = partition.max_minutes, cluster.time_limit_minutes
    if limit is not None and wanted > limit:
        time = fail("time limit", f"{wanted} min, {partition.name} allows {limit}", f"set time_limit_minutes: {limit}")
    else:
        time = passed("time limit", f"{wanted} min of {'any' if limit is None else limit}")
    most = min(partition.max_nodes or partition.node_count, partition.node_count)
    if nodes > most:
        size = fail("nodes", f"a run wants {nodes}, {partition.name} gives {most}", "lower nodes: in the pipeline file")
    else:
        size = passed("nodes", f"{nodes} of {most}")
    return [time, size]


def _check_account(cluster: Cluster, partition: Partition, run: Command) -> list[Check]:
    associations = ask_associations(run)
    checks = []
    if associations is None:
        found = f"{cluster.account} (no accounting to look it up)" if cluster.account else "no accounting here"
        checks.append(skip("account", found))
        if cluster.accounting:
            checks.append(fail("accounting", "sacctmgr does not answer", "set accounting: false"))
        return checks
    own = sorted({item.account for item in associations})
    choice = f"--config account=NAME or NEOX_TRAIN_ACCOUNT, one of {', '.join(own) or '(none is yours)'}"
    allowed, account = partition.allow_accounts, cluster.account
    if account is None:
        checks.append(passed("account", "your default") if own else warn("account", "none is yours", choice))
    elif account.lower() not in own:
        checks.append(fail("account", f"{account} is not yours", choice))
    elif (allowed is not None and account not in allowed) or account in partition.deny_accounts:
        checks.append(fail("account", f"{account} may not use {partition.name}", f"one of {', '.join(allowed or own)}"))
    else:
        checks.append(passed("account", account))
    qos = sorted({name for item in associations if account in (None, item.account) for name in item.qos})
    if cluster.qos and qos and cluster.qos not in qos:
        checks.append(fail("qos", f"{cluster.qos} is not yours", f"set qos: to one of {', '.join(qos)}"))
    return checks


def _check_nodes(cluster: Cluster, partition: Partition, run: Command) -> list[Check]:
    nodes = ask_nodes(partition.nodes, run)
    if not nodes:
        return [warn("nodes of the partition", "none", "ask the site")]
    cores = min(int(node.get("CPUTot", "0")) for node in nodes)
    wanted = cluster.processes_per_node * cluster.cpus_per_process
    if wanted > cores:
        remedy = f"set cpus_per_process: {max(1, cores // cluster.processes_per_node)}"
        check = fail("cores", f"{wanted} a node wanted, the smallest has {cores}", remedy)
    else:
        check = passed("cores", f"{wanted} of {cores} a node")
    return [check, *check_gpus(cluster, [parse_gres(node.get("Gres", "")) for node in nodes])]


def check_gpus(cluster: Cluster, nodes: Sequence[NodeGpus]) -> list[Check]:
    """The profile's GPUs against those of the partition's nodes."""
    if cluster.device != "cuda":
        return []
    kinds = sorted({node.describe() for node in nodes})
    seen = ", ".join(f"{kind} a node" for kind in kinds)
    types = sorted({kind for node in nodes for kind in node.whole})
    if cluster.gres_style == "none":
        if types:
            return [warn("GPUs", f"Slurm counts {seen}", "set gres_style: gpus-per-node, or jobs get no GPU")]
        return [passed("GPUs", "not counted by Slurm, as gres_style: none says")]
    if not types:
        return [fail("GPUs", f"the partition has none ({seen})", "choose another partition, or gres_style: none")]
    wanted = cluster.gres_type or (types[0] if len(types) == 1 else None)
    if wanted is None:
        remedy = f"set gres_type: to one of {', '.join(kind for kind in types if kind)}, or a constraint"
        return [(warn if cluster.constraint else fail)("GPUs", f"mixed: {seen}", remedy)]
    most = max(node.whole.get(wanted, 0) for node in nodes)
    if most < cluster.processes_per_node:
        found = f"{cluster.processes_per_node} {wanted} a node wanted, there are {seen}"
        return [fail("GPUs", found, f"set processes_per_node: {most}" if most else "mend gres_type")]
    assert cluster.gpu is not None
    if wanted and not _may_be_same(wanted, cluster.gpu.type):
        found = f"Slurm calls them {wanted}, the profile {cluster.gpu.type}"
        return [warn("GPUs", found, f"compare the gpu: block; set gpu.type: {wanted} when it is that card")]
    return [passed("GPUs", f"{cluster.processes_per_node} of {seen}")]


def _may_be_same(slurm_type: str, own_type: str) -> bool:
    """Whether two names may mean one card: equal, or one entry of the table has both."""
    if slurm_type.lower() == own_type.lower():
        return True
    meant = {gpu.key for gpu in find_gpus(slurm_type)}
    return bool(meant & {gpu.key for gpu in find_gpus(own_type)})


def _check_preemption(cluster: Cluster, partition: Partition, configuration: dict[str, str]) -> Check:
    off = configuration.get("PreemptType", "preempt/none") == "preempt/none"
    mode = "off" if off else partition.preempt_mode or "off"
    if cluster.preempt_mode is not None and cluster.preempt_mode != mode:
        return warn("preemption", f"{partition.name} has {mode}", f'set preempt_mode: "{mode}"')
    return passed("preemption", mode)


def _check_request(name: str, options: Sequence[str], run: Command) -> Check:
    """Slurm's own word on a request, without queueing it."""
    answer = run(["sbatch", "--test-only", *options, "--output=/dev/null", "--wrap=true"])
    lines = [line for line in (answer.err + answer.out).splitlines() if line.strip()]
    said = lines[-1].removeprefix("sbatch: ").strip() if lines else "no answer"
    if answer.code != 0:
        file = "cluster.yaml" if name == "request" else "set-resources or set-threads of config.yaml, or cpu_stages"
        return fail(name, said, f"mend what Slurm names, in {file}")
    return passed(name, said)


def _check_ended_jobs(configuration: dict[str, str], status_command: str | None) -> Check:
    """How long squeue remembers an ended job, against the plugin's pace."""
    digits = "".join(character for character in configuration.get("MinJobAge", "") if character.isdigit())
    seconds, accounting = int(digits or 0), "none" not in configuration.get("AccountingStorageType", "none")
    name = "ended jobs"
    if status_command == "sacct" and not accounting:
        return fail(name, "config.yaml asks sacct, and there is no accounting", "set slurm-status-command: squeue")
    if status_command != "sacct" and seconds <= _PLUGIN_LOOKS_SECONDS:
        found = f"squeue forgets them after {seconds} s (MinJobAge), the plugin looks every {_PLUGIN_LOOKS_SECONDS} s"
        remedy = "set slurm-status-command: sacct" if accounting else "ask the site for a longer MinJobAge"
        return warn(name, found, remedy)
    return passed(name, f"told by {status_command or 'squeue'}, MinJobAge {seconds} s")
