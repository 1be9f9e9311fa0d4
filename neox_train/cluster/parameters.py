"""submitit's parameters for one training job, from the cluster file alone."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from neox_train.cluster.environment import export_lines, job_variables
from neox_train.config.cluster import Cluster
from neox_train.errors import ConfigError


def local_parameters(cluster: Cluster, nodes: int) -> dict[str, Any]:
    """Parameters of submitit's LocalExecutor; raises ConfigError for more than this one node."""
    if nodes != 1:
        raise ConfigError(
            f"the run asks for nodes: {nodes}, and the cluster `{cluster.name}` has executor: local, which is one "
            "node; set nodes: 1 or use a Slurm profile"
        )
    parameters: dict[str, Any] = {
        "timeout_min": cluster.time_limit_minutes,
        "tasks_per_node": cluster.processes_per_node,
        "signal_delay_s": cluster.signal_lead_seconds,
        "stderr_to_stdout": True,
    }
    if cluster.device == "cuda":
        parameters["gpus_per_node"] = cluster.processes_per_node
        if visible := _visible_gpus():
            parameters["visible_gpus"] = visible
    return parameters


def _visible_gpus() -> tuple[int, ...]:
    """GPUs that the caller was given by number; empty when the caller sees all."""
    names = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return tuple(int(name) for name in names) if all(name.isdigit() for name in names) else ()


def slurm_parameters(
    cluster: Cluster,
    nodes: int,
    *,
    name: str,
    signal_lead_seconds: int,
    code: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Parameters of submitit's SlurmExecutor, named as sbatch's; what the cluster file leaves out is left out.

    ``code`` are the variables that lead to the submitted code.
    """
    variables = {**job_variables(cluster), "SRUN_CPUS_PER_TASK": str(cluster.cpus_per_process), **(code or {})}
    parameters: dict[str, Any] = {
        "job_name": name,
        "partition": cluster.partition,
        "account": cluster.account,
        "qos": cluster.qos,
        "constraint": cluster.constraint,
        "exclude": cluster.exclude,
        "mail_user": cluster.mail_user,
        # Without an address Slurm would write to the local user of the cluster.
        "mail_type": cluster.mail_type if cluster.mail_user else None,
        "mem": cluster.memory_per_node,
        "time": cluster.time_limit_minutes,
        "nodes": nodes,
        "ntasks_per_node": cluster.processes_per_node,
        "cpus_per_task": cluster.cpus_per_process,
        "signal_delay_s": signal_lead_seconds,
        "stderr_to_stdout": True,
        "setup": [*cluster.setup, *export_lines(variables)],
        # srun does not take --cpus-per-task from sbatch since Slurm 22.05; one dead rank must end the others.
        "srun_args": ["--kill-on-bad-exit=1", f"--cpus-per-task={cluster.cpus_per_process}"],
        "additional_parameters": _additional_parameters(cluster),
        **_gpu_parameters(cluster),
    }
    return {key: value for key, value in parameters.items() if value is not None}


def _additional_parameters(cluster: Cluster) -> dict[str, Any]:
    """sbatch options that submitit has no name for; ``slurm_extra`` wins."""
    own: dict[str, Any] = {"requeue": True, "open-mode": "append"}
    if cluster.reservation:
        own["reservation"] = cluster.reservation
    # An option without a value, such as exclusive, is written with an empty text or true.
    extra = {key: True if value in ("", "true") else value for key, value in cluster.slurm_extra.items()}
    return {**own, **extra}


def _gpu_parameters(cluster: Cluster) -> dict[str, Any]:
    """A count, with a type only where the partition mixes GPUs: sites name types differently."""
    if cluster.device != "cuda" or cluster.gres_style == "none":
        return {}
    count = cluster.processes_per_node
    request = f"{cluster.gres_type}:{count}" if cluster.gres_type else str(count)
    return {"gres": f"gpu:{request}"} if cluster.gres_style == "gres" else {"gpus_per_node": request}


def rank_python(cluster: Cluster) -> str:
    """Shell words that start a rank's interpreter.

    The local executor runs them without a batch script, so the cluster file's ``setup`` lines go in front there.
    """
    python = cluster.python or shlex.quote(sys.executable)
    if cluster.executor == "slurm" or not cluster.setup:
        return python
    script = " && ".join([*cluster.setup, f'exec {python} "$@"'])
    return f"bash -c {shlex.quote(script)} neox-train"
