"""What Slurm says of itself: partitions, their nodes and GPUs, its configuration, a user's accounts."""

from __future__ import annotations

import getpass
import re
from collections.abc import Sequence
from dataclasses import dataclass

from neox_train.cluster.gres import NodeGpus, parse_gres
from neox_train.cluster.slurm_state import Command, run_command
from neox_train.errors import ConfigError

_PAIR = re.compile(r"(?:^|\s)([A-Z][A-Za-z/_]*)=(.*?)(?=\s+[A-Z][A-Za-z/_]*=|\s*$)")
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")


@dataclass(frozen=True)
class Partition:
    """One partition as ``scontrol show partition`` gives it; None where there is no limit."""

    name: str
    is_default: bool
    state: str
    max_minutes: int | None
    max_nodes: int | None
    nodes: str
    node_count: int
    allow_accounts: tuple[str, ...] | None
    deny_accounts: tuple[str, ...]
    allow_qos: tuple[str, ...] | None
    preempt_mode: str


@dataclass(frozen=True)
class NodeGroup:
    """Nodes of a partition that are alike; memory in MiB."""

    nodes: int
    cpus: int
    memory_mib: int
    features: tuple[str, ...]
    gpus: NodeGpus


@dataclass(frozen=True)
class Association:
    """An account of a user, and the QOS it may use there."""

    account: str
    partition: str
    qos: tuple[str, ...]


def ask_partitions(run: Command = run_command) -> dict[str, Partition]:
    """Every partition by name; raises ConfigError when Slurm does not answer."""
    text = _ask(["scontrol", "-o", "show", "partition"], run)
    found = [_read_partition(read_pairs(line)) for line in text.splitlines() if line.startswith("PartitionName=")]
    return {partition.name: partition for partition in found}


def _read_partition(facts: dict[str, str]) -> Partition:
    return Partition(
        name=facts["PartitionName"],
        is_default=facts.get("Default") == "YES",
        state=facts.get("State", ""),
        max_minutes=parse_minutes(facts.get("MaxTime", "UNLIMITED")),
        max_nodes=_number(facts.get("MaxNodes", "UNLIMITED")),
        nodes=facts.get("Nodes", ""),
        node_count=_number(facts.get("TotalNodes", "0")) or 0,
        allow_accounts=_names(facts.get("AllowAccounts", "ALL")),
        deny_accounts=_names(facts.get("DenyAccounts", "")) or (),
        allow_qos=_names(facts.get("AllowQos", "ALL")),
        preempt_mode=facts.get("PreemptMode", "").split(",")[-1].lower(),
    )


def ask_node_groups(run: Command = run_command) -> dict[str, list[NodeGroup]]:
    """The kinds of nodes of every partition, by ``sinfo``; raises ConfigError when Slurm does not answer."""
    # Without a width sinfo prints a field whole; the resources come last, as they may hold any character.
    text = _ask(["sinfo", "-h", "-a", "-e", "-o", "%P|%D|%c|%m|%f|%G"], run)
    groups: dict[str, list[NodeGroup]] = {}
    for line in text.splitlines():
        if line.count("|") >= 5:
            partition, rest = line.split("|", 1)
            groups.setdefault(partition.rstrip("*"), []).append(_read_group(rest))
    return groups


def _read_group(line: str) -> NodeGroup:
    nodes, cpus, memory, features, resources = line.split("|", 4)
    return NodeGroup(
        nodes=_number(nodes) or 0,
        cpus=_number(cpus.rstrip("+")) or 0,
        memory_mib=_number(memory.rstrip("+")) or 0,
        features=_names(features) or (),
        gpus=parse_gres(resources),
    )


def ask_nodes(nodes: str, run: Command = run_command) -> list[dict[str, str]]:
    """Everything ``scontrol show node`` says of a node list, one mapping a node."""
    text = _ask(["scontrol", "-o", "show", "node", nodes], run)
    return [read_pairs(line) for line in text.splitlines() if line.startswith("NodeName=")]


def ask_configuration(run: Command = run_command) -> dict[str, str]:
    """``scontrol show config`` by name; raises ConfigError when Slurm does not answer."""
    pairs = (line.partition("=") for line in _ask(["scontrol", "show", "config"], run).splitlines())
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def ask_associations(run: Command = run_command) -> list[Association] | None:
    """Accounts of this user; None on a cluster without accounting."""
    fields = "format=Account,Partition,QOS"
    answer = run(["sacctmgr", "-n", "-P", "show", "assoc", "where", f"user={getpass.getuser()}", fields])
    if answer.code != 0:
        return None
    rows = (line.split("|") for line in answer.out.splitlines() if line.count("|") >= 2)
    return [Association(row[0], row[1], _names(row[2]) or ()) for row in rows]


def read_pairs(line: str) -> dict[str, str]:
    """``Name=value`` pairs of one scontrol line; a value may hold blanks and equal signs."""
    return {match.group(1): match.group(2) for match in _PAIR.finditer(line)}


def parse_minutes(text: str) -> int | None:
    """Minutes of a Slurm time (``2-00:00:00``, ``12:00:00``, ``30:00``, ``90``); None for no limit."""
    if text in ("UNLIMITED", "INFINITE", "NONE", "n/a", ""):
        return None
    match = _TIME.fullmatch(text)
    if not match:
        raise ConfigError(f"Slurm's time `{text}` cannot be read; expected such as 2-00:00:00 or 12:00:00")
    days, first, second, third = (int(part) if part is not None else None for part in match.groups())
    if days is not None:
        return days * 1440 + (first or 0) * 60 + (second or 0)
    if third is not None:
        return (first or 0) * 60 + (second or 0)
    return first


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _names(text: str) -> tuple[str, ...] | None:
    """Names of a comma-separated list; None for ALL, which is no restriction."""
    if text == "ALL":
        return None
    return tuple(name for name in text.split(",") if name and name not in ("(null)", "N/A"))


def _ask(command: Sequence[str], run: Command) -> str:
    answer = run(command)
    if answer.code == 127:
        raise ConfigError(
            f"`{command[0]}` is not found; run this on a login node of the cluster ({answer.err.strip()})"
        )
    if answer.code != 0:
        reason = (answer.err or answer.out).strip().splitlines()[:1]
        raise ConfigError(
            f"`{' '.join(command)}` failed ({reason[0] if reason else 'no reason given'}); is this a login node, "
            "and does the controller answer?"
        )
    return answer.out
