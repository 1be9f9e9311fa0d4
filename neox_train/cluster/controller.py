"""The workflow's controller as a small CPU job that queues itself again: a rebooted login node stops nothing."""

from __future__ import annotations

import getpass
import hashlib
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from neox_train.cluster.sbatch import call_sbatch, read_submission
from neox_train.cluster.slurm_state import find_living
from neox_train.config.cluster import Cluster
from neox_train.errors import ConfigError, LockHeldError
from neox_train.files import make_folder, write_text

_LEAD_SECONDS = 120
_SCRIPT = """#!/bin/bash
{options}
# The time limit, or a preemption, comes: back into the queue. Trainings are jobs of their own and go on meanwhile.
JOB=$SLURM_JOB_ID
trap 'scontrol requeue "$JOB"; exit 0' USR2
cd {folder} || exit 1
{setup}
# Snakemake must not take itself for a part of this job.
for name in "${{!SLURM_@}}"; do [ "$name" = SLURM_CONF ] || unset "$name"; done
{command} &
wait $!
"""


@dataclass(frozen=True)
class Controller:
    """What the job runs, from which folder; ``minutes`` is its time limit, after which it starts again."""

    profile: Path
    folder: Path
    arguments: tuple[str, ...]
    minutes: int
    memory_mib: int

    @property
    def name(self) -> str:
        """The same for the same work: a second controller of it is refused."""
        key = "\0".join([getpass.getuser(), str(self.folder), str(self.profile), *self.arguments])
        return f"neox-train-controller-{hashlib.sha256(key.encode()).hexdigest()[:12]}"

    @property
    def command(self) -> str:
        """Snakemake with the interpreter that runs this."""
        words = [sys.executable, "-m", "snakemake", "--profile", str(self.profile), *self.arguments]
        return " ".join(map(shlex.quote, words))


def launch_controller(controller: Controller, cluster: Cluster, results: Path) -> tuple[str, Path]:
    """Submit the controller; its job id and log file.

    Raises ConfigError for a profile without Slurm, LockHeldError when one for the same work is queued or running, and
    TrainingError when sbatch refuses or Slurm does not answer.
    """
    if cluster.executor != "slurm":
        raise ConfigError(f"profile {controller.profile} has executor: {cluster.executor}; start snakemake itself")
    if job_id := find_living(controller.name):
        raise LockHeldError(f"job {job_id} is this workflow's controller already; `scancel {job_id}` ends it")
    place = make_folder(results / "controller").absolute()
    log = place / "controller.log"
    script = place / "controller.sh"
    write_text(script, _render(controller, cluster, log))
    job_id, _ = read_submission(call_sbatch(script, place))
    return job_id, log


def _render(controller: Controller, cluster: Cluster, log: Path) -> str:
    own = cluster.cpu_stages
    options = {
        "job-name": controller.name,
        "partition": own.partition or cluster.partition,
        "account": own.account or cluster.account,
        "qos": own.qos or (None if own.partition else cluster.qos),
        "constraint": own.constraint or (None if own.partition else cluster.constraint),
        "nodes": 1,
        "ntasks": 1,
        "cpus-per-task": 1,
        "mem": f"{controller.memory_mib}M",
        "time": controller.minutes,
        "signal": f"B:USR2@{min(_LEAD_SECONDS, controller.minutes * 30)}",
        "open-mode": "append",
        "output": log,
    }
    lines = [f"#SBATCH --{key}={shlex.quote(str(value))}" for key, value in options.items() if value is not None]
    return _SCRIPT.format(
        options="\n".join([*lines, "#SBATCH --requeue"]),
        folder=shlex.quote(str(controller.folder)),
        setup="\n".join(cluster.setup),
        command=controller.command,
    )
