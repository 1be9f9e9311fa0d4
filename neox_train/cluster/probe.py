"""Doctor's job, in every rank: look at the node, measure one all-reduce, write what was found.

It takes the path of a training: submitted through submitit by name with one string, torch only inside.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from pathlib import Path

import submitit

from neox_train.cluster.all_reduce import start_and_measure
from neox_train.cluster.environment import rank_variables
from neox_train.cluster.node_facts import collect_facts, has_device
from neox_train.cluster.rendezvous import agree_on_address
from neox_train.cluster.transport import (
    check_transport,
    parse_transport,
    read_own_log,
    transport_variables,
    watches_transport,
)
from neox_train.cluster.worker import own_address
from neox_train.config.cluster import load_cluster
from neox_train.files import read_json, write_json

_WAIT_SECONDS = 120.0
CLUSTER_FILE = "cluster.json"
SWEEP_FILE = "sweep.json"
"""What is asked of a sweep (``seconds``), then what came of it (``rows``)."""


def probe_file(folder: Path, rank: int) -> Path:
    """What one rank found."""
    return folder / f"probe-{rank}.json"


def _read_sweep(folder: Path) -> float:
    return float((read_json(folder / SWEEP_FILE) or {}).get("seconds", 0.0))


def probe_rank(folder_name: str) -> str:
    """Write ``probe-RANK.json`` into the folder, which holds the cluster file."""
    folder = Path(folder_name)
    cluster = load_cluster(folder / CLUSTER_FILE)
    job = submitit.JobEnvironment()
    started = time.time()
    own_gpu = job.local_rank if cluster.device == "cuda" else None
    facts = {"rank": job.global_rank, **collect_facts(cluster, folder, only_gpu=own_gpu)}
    if has_device(facts, cluster):
        rank, size = job.global_rank, job.num_tasks
        address, port = agree_on_address(
            folder, job_id=job.job_id, start=0, rank=rank, address=own_address(job), wait_seconds=_WAIT_SECONDS
        )
        os.environ.update(
            rank_variables(rank=rank, world_size=size, local_rank=job.local_rank, address=address, port=port)
        )
        nodes = max(1, size // cluster.processes_per_node)
        if watches_transport(cluster, nodes):
            os.environ.update(transport_variables(folder, 0))
        facts["rendezvous"] = f"{address}:{port}"
        facts["all_reduce"] = start_and_measure(cluster.device, job.local_rank, sweep_seconds=_read_sweep(folder))
        if watches_transport(cluster, nodes):
            transport = parse_transport(read_own_log(os.environ["NCCL_DEBUG_FILE"]))
            facts["transport"] = asdict(check_transport(transport, cluster, nodes=nodes))
    facts["seconds"] = round(time.time() - started, 1)
    write_json(probe_file(folder, job.global_rank), facts)
    return "probed"
