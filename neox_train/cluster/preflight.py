"""Checks at the start of a training, on every rank: minutes spent here save a night on a node that cannot do it."""

from __future__ import annotations

import os
from pathlib import Path

from neox_train.cluster.check import FAILED, WARNING
from neox_train.cluster.node_checks import check_bandwidth, check_node
from neox_train.cluster.node_facts import collect_facts
from neox_train.cluster.transport import check_transport, parse_transport, read_own_log
from neox_train.config.cluster import Cluster
from neox_train.errors import TrainingError


def require_healthy_node(cluster: Cluster, results: Path, *, local_rank: int) -> list[str]:
    """Raise TrainingError, naming node, finding and remedy, where a node does not fit the profile; returns warnings.

    Each rank calls it once before torch.distributed starts, with the folder it will write to. It looks at the rank's
    own GPU only, and takes about a second.
    """
    facts = collect_facts(cluster, results, only_gpu=local_rank if cluster.device == "cuda" else None)
    checks = check_node(facts, cluster)
    for check in checks:
        if check.status == FAILED:
            raise TrainingError(f"preflight on {facts['host']}, local rank {local_rank}: {check.sentence()}")
    return [f"preflight on {facts['host']}: {check.sentence()}" for check in checks if check.status == WARNING]


def require_transport(cluster: Cluster, folder: Path) -> None:
    """Raise TrainingError where NCCL connected nodes by TCP though the profile promises another network.

    Every rank calls it after torch.distributed has started, and reads the log of its own NCCL; all raise or none.
    """
    own = os.environ.get("NCCL_DEBUG_FILE", "")
    if not own.startswith(str(folder)):
        return
    import torch
    import torch.distributed as dist

    # The first collective makes NCCL connect, and write how.
    failed = torch.zeros(1, device=cluster.device)
    dist.all_reduce(failed)
    check = check_transport(parse_transport(read_own_log(own)), cluster, nodes=2)
    failed.fill_(float(check.status == FAILED))
    dist.all_reduce(failed)
    if check.status == FAILED:
        raise TrainingError(f"preflight of the network: {check.sentence()}")
    if float(failed):
        raise TrainingError("preflight of the network: NCCL took TCP on another node; the log of its rank says why")


def require_bandwidth(cluster: Cluster) -> str | None:
    """Raise TrainingError where an all-reduce over all ranks is below the profile's floor; returns what was measured.

    Every rank calls it after torch.distributed has started; all raise or none. Without a floor nothing is measured.
    """
    if cluster.preflight.all_reduce_gb_per_second is None:
        return None
    from neox_train.cluster.all_reduce import measure

    check = check_bandwidth(measure(cluster.device), cluster)
    if check.status == FAILED:
        raise TrainingError(f"preflight of the network: {check.sentence()}")
    return check.found
