"""A training in Slurm: submitted through submitit, asked after with squeue and sacct, found again by name."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from neox_train.cluster.environment import clean_environment
from neox_train.cluster.jobs import ENDED, PENDING, JobState
from neox_train.cluster.ledger import Attempt
from neox_train.cluster.parameters import rank_python, slurm_parameters
from neox_train.cluster.rank_record import RUNNING as RANK_RUNNING
from neox_train.cluster.rank_record import read_records
from neox_train.cluster.sbatch import SbatchExecutor
from neox_train.cluster.slurm_state import (
    ask_accounting,
    ask_queue,
    find_by_name,
    is_limbo,
    on_cluster,
    run_command,
)
from neox_train.cluster.worker import run_rank
from neox_train.config.cluster import Cluster
from neox_train.config.layout import RunFolder
from neox_train.errors import TrainingError

_LIMBO_SECONDS = 300.0
_SILENCE_SECONDS = 600.0


class SlurmJob:
    """One job of a run; it goes on when nobody follows it."""

    survives_launcher = True
    poll_seconds = 15.0

    def __init__(
        self, job_id: str, folder: Path, processes: int, submitted: float, cluster_name: str | None = None
    ) -> None:
        self.job_id = job_id
        self.cluster_name = cluster_name
        self.folder = folder
        self.processes = processes
        self._since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(submitted - 60))
        self._unsure_since: float | None = None

    @classmethod
    def submit(cls, run: RunFolder, cluster: Cluster, nodes: int, folder: Path, name: str) -> SlurmJob:
        """Submit one job; its name is in the ledger already.

        Raises TrainingError when sbatch refuses, does not answer or names no id: the job may exist all the same, so the
        caller leaves the attempt open, and ``attach`` looks for the name.
        """
        with clean_environment():
            try:
                executor = SbatchExecutor(folder=folder.absolute(), python=rank_python(cluster))
                executor.update_parameters(**slurm_parameters(cluster, nodes, name=name))
                job = executor.submit(run_rank, str(run.path.absolute()))
            except (RuntimeError, subprocess.SubprocessError) as error:
                raise TrainingError(f"run {run.name} was not submitted: {str(error).strip()}") from error
        processes = nodes * cluster.processes_per_node
        return cls(job.job_id, folder, processes, time.time(), executor.cluster_name)

    @classmethod
    def attach(cls, attempt: Attempt, folder: Path) -> SlurmJob | None:
        """The job of an open attempt; None when it was never queued."""
        job_id = attempt.job_id or find_by_name(attempt.name)
        if job_id is None:
            return None
        return cls(job_id, folder, attempt.processes, attempt.submitted, attempt.cluster_name)

    def state(self) -> JobState:
        """Finished by the ranks' own records, else squeue's word, else the accounting's.

        A node failure counts as an end, and silence of all sources as a loss, only when it lasts.
        """
        records = read_records(self.folder, self.job_id, self.processes)
        if len(records) == self.processes and all(r.outcome == "finished" for r in records.values()):
            return JobState(ENDED, "COMPLETED")
        state = self._ask()
        if state is not None and not is_limbo(state):
            self._unsure_since = None
            return state
        self._unsure_since = self._unsure_since or time.monotonic()
        unsure_seconds = time.monotonic() - self._unsure_since
        if state is not None:
            return state if unsure_seconds > _LIMBO_SECONDS else JobState(PENDING, state.detail)
        if unsure_seconds > _SILENCE_SECONDS and all(r.outcome != RANK_RUNNING for r in records.values()):
            return JobState(ENDED, "unknown to Slurm")
        return JobState(PENDING, "(Slurm does not answer)")

    def _ask(self) -> JobState | None:
        with clean_environment():
            return ask_queue(self.job_id, self.cluster_name) or ask_accounting(
                self.job_id, self._since, self.cluster_name
            )

    def vanished_ranks(self) -> list[int]:
        """None: Slurm watches the processes."""
        return []

    def ends_with_its_first_rank(self) -> bool:
        """srun's --kill-on-bad-exit does it, and a node failure must not be taken for the job's end."""
        return True

    def request_stop(self) -> None:
        """Ask the ranks to save; rank 0 then queues the job again."""
        self._scancel("--signal=USR2")

    def end(self) -> None:
        """Cancel the job."""
        self._scancel()

    def _scancel(self, *options: str) -> None:
        with clean_environment():
            run_command(["scancel", *on_cluster(self.cluster_name), *options, self.job_id])
