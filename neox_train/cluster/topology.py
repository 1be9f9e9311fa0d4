"""The nodes and switches that Slurm gave a job, told at its start and kept in the run's provenance."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from neox_train.cluster.nodelist import expand_nodes
from neox_train.cluster.slurm_facts import read_pairs
from neox_train.cluster.slurm_state import Command, run_command
from neox_train.config.grid import GridShape
from neox_train.config.layout import RunFolder
from neox_train.config.load import load_config
from neox_train.config.placement import place_groups
from neox_train.errors import ConfigError
from neox_train.files import read_json, write_json


def find_switches(nodes: Sequence[str], run: Command = run_command) -> dict[str, str]:
    """The leaf switch of each node, by ``scontrol show topology``; empty where the site describes none."""
    answer = run(["scontrol", "show", "topology"])
    return parse_switches(answer.out, nodes) if answer.code == 0 else {}


def parse_switches(text: str, nodes: Sequence[str]) -> dict[str, str]:
    """Lines ``SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=gpu[07-08]``; switches above the leaves are passed over."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        facts = read_pairs(line)
        if "SwitchName" not in facts or facts.get("Level") != "0":
            continue
        try:
            below = set(expand_nodes(facts.get("Nodes", "")))
        except ConfigError:
            continue
        found |= {node: facts["SwitchName"] for node in nodes if node in below}
    return found


def describe_topology(nodes: Sequence[str], switches: Mapping[str, str], shape: GridShape) -> dict[str, Any]:
    """Nodes in the ranks' order, their switches, and a sentence for each thing worth a line of the log."""
    per_node = -(-shape.size // len(nodes))
    placement = place_groups(shape, per_node)
    named = ", ".join(f"{node} ({switches[node]})" if node in switches else node for node in nodes)
    leaves = len(set(switches.values()))
    told = f"nodes: {named}" + (f"; {leaves} leaf switch{'es' if leaves > 1 else ''}" if leaves else "")
    sentences = [told] + ([placement.sentence()] if len(nodes) > 1 else [])
    if warning := placement.warning():
        sentences.append(f"warning: {warning}")
    return {"nodes": list(nodes), "switches": dict(switches), "ranks_per_node": per_node, "told": sentences}


def tell_topology(run: RunFolder, world_size: int) -> None:
    """Print the topology of this Slurm job and add it to the run's provenance; rank 0 calls it."""
    nodes = expand_nodes(os.environ["SLURM_JOB_NODELIST"])
    config = load_config([run.config_file], world_size=world_size)
    tensor, stages = config.model_parallel_size, max(1, config.pipe_parallel_size)
    shape = GridShape(pp=stages, dp=world_size // (tensor * stages), tp=tensor)
    topology = describe_topology(nodes, find_switches(nodes), shape)
    for sentence in topology.pop("told"):
        print(sentence, flush=True)
    # The address of rank 0's node in Slurm's own words, where the site has a topology plugin.
    topology["address"] = os.environ.get("SLURM_TOPOLOGY_ADDR")
    record = read_json(run.provenance) or {}
    write_json(run.provenance, {**record, "topology": topology})
