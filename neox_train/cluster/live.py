"""What Slurm says now of the runs' open jobs, for a person who asks."""

from __future__ import annotations

from neox_train.cluster.jobs import ENDED
from neox_train.cluster.ledger import Attempt
from neox_train.cluster.slurm_job import SlurmJob
from neox_train.config.layout import RunFolder


def ask_state(run: RunFolder, attempt: Attempt | None) -> str:
    """One phrase on an open Slurm job; empty where there is none to ask about. Waits for nothing."""
    if attempt is None or not attempt.is_open or attempt.executor != "slurm":
        return ""
    if attempt.job_id is None:
        return "submission not recorded; the same command looks for it by name"
    state = SlurmJob(run, attempt, attempt.job_id, attempt.cluster_name).state()
    if state.phase == ENDED:
        return f"{state.detail}; the same command writes down its end"
    return state.detail
