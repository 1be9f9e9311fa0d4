"""Tokenize, convert and evaluate as Slurm jobs of one node: what Snakemake's Slurm plugin asks for, and their shell."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping

from neox_train.cluster.environment import export_lines, job_variables
from neox_train.cluster.parameters import rank_python
from neox_train.cluster.slurm_facts import parse_minutes
from neox_train.config.cluster import Cluster
from neox_train.errors import ConfigError

_CPU_STAGES = ("tokenize", "convert")
_SLURM_TIME = re.compile(r"(\d+-)?\d+(:\d+)+|\d+-\d+")


def stage_resources(cluster: Cluster, stage: str) -> dict[str, str]:
    """Snakemake resources of a stage's job, from the facts; memory, run time and threads are the profile's.

    The account is left to ``offer_account`` without accounting: the plugin refuses one that it cannot look up.
    """
    if cluster.executor != "slurm":
        return {}
    found = {
        "slurm_partition": cluster.partition,
        "slurm_account": cluster.account,
        "qos": cluster.qos,
        "constraint": cluster.constraint,
        "slurm_extra": f"--reservation={cluster.reservation}" if cluster.reservation else None,
        "gres": _one_gpu(cluster),
    }
    if stage in _CPU_STAGES:
        own = cluster.cpu_stages
        if own.partition:
            # Features, QOS and reservations of the GPU nodes mean nothing in another partition.
            found |= {"slurm_partition": own.partition, "qos": None, "constraint": None, "slurm_extra": None}
        found |= {"gres": None, "qos": own.qos or found["qos"], "constraint": own.constraint or found["constraint"]}
        found["slurm_account"] = own.account or cluster.account
    if cluster.accounting is False:
        found["slurm_account"] = None
    return {name: value for name, value in found.items() if value}


def _one_gpu(cluster: Cluster) -> str | None:
    if cluster.device != "cuda" or cluster.gres_style == "none":
        return None
    return f"gpu:{cluster.gres_type}:1" if cluster.gres_type else "gpu:1"


def offer_account(cluster: Cluster) -> None:
    """Name the account to sbatch through its own variable where the plugin cannot check one."""
    if cluster.executor == "slurm" and cluster.accounting is False and cluster.account:
        os.environ["SBATCH_ACCOUNT"] = cluster.account


def stage_shell(cluster: Cluster, *, on_compute_node: bool) -> tuple[str, str]:
    """Shell lines to run first, and the words that start the interpreter of a stage.

    In a job they are the cluster file's set-up, variables and interpreter. The lines come before the shell is made
    strict: module commands read variables that are not set.
    """
    if not on_compute_node:
        return "", shlex.quote(sys.executable)
    lines = [*cluster.setup, *export_lines(job_variables(cluster))]
    return "".join(f"{line}\n" for line in lines), rank_python(cluster)


def check_run_times(run_times: Mapping[str, object]) -> None:
    """Raise ConfigError for a run time in Slurm's spelling (``01:30:00``), which Snakemake does not read.

    ``run_times`` holds what a profile says, by the place where it says it.
    """
    for place, written in run_times.items():
        if isinstance(written, str) and _SLURM_TIME.fullmatch(written.strip("'\"")):
            minutes = parse_minutes(written.strip("'\""))
            raise ConfigError(
                f"the profile's runtime in {place} is {written}, as Slurm writes it; Snakemake takes minutes: write "
                f"{minutes} or {minutes}m"
            )
