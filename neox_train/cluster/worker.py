"""What a job runs in every rank: the one function that is submitted.

It is importable by name, takes a string and imports no torch before training starts, so that the submitting and the
computing Python may differ.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

import submitit

from neox_train.cluster.environment import rank_variables
from neox_train.cluster.rank_record import FAILED, FINISHED, STOPPED, RankRecord
from neox_train.cluster.rendezvous import agree_on_address, resolve_ipv4
from neox_train.config.layout import RunFolder
from neox_train.errors import TrainingError, UserError
from neox_train.locks import hold_lock
from neox_train.training.stop import request_stop

START_SECONDS = 300.0
"""How long ranks wait for each other to start, and for the ranks of an ended job to go."""

_wall_signal_seen = False


def ranks_lock(run: RunFolder) -> Path:
    """The lock that every rank of a run shares: free when no rank of the run lives."""
    return run.path / ".ranks.lock"


def run_rank(run_folder: str) -> str:
    """Train the run in ``run_folder`` as one rank; ``finished`` or ``stopped`` (asked to stop, and saved).

    The rank, the number of ranks and the log folder come from submitit's job environment.
    """
    run = RunFolder(Path(run_folder))
    job = submitit.JobEnvironment()
    folder, job_id, rank = job.paths.folder, job.job_id, job.global_rank
    start = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
    record = RankRecord.begin(folder, job_id, rank, start)
    try:
        install_handlers()
        with hold_lock(ranks_lock(run), shared=True, wait_seconds=START_SECONDS):
            address, port = agree_on_address(
                folder, job_id=job_id, start=start, rank=rank, address=own_address(job), wait_seconds=START_SECONDS
            )
            os.environ.update(
                rank_variables(
                    rank=rank, world_size=job.num_tasks, local_rank=job.local_rank, address=address, port=port
                )
            )
            from neox_train.training.entry import train_rank

            outcome = FINISHED if train_rank(run_folder) == FINISHED else STOPPED
    except UserError as error:
        # No traceback for the user's own: what the follower shows is this sentence.
        print(f"error: {error}", file=sys.stderr, flush=True)
        record.end(folder, job_id, FAILED, str(error), retry=False)
        sys.exit(error.exit_code)
    except BaseException as error:
        record.end(folder, job_id, FAILED, f"{type(error).__name__}: {error}")
        raise
    record.end(folder, job_id, outcome)
    if outcome == STOPPED and rank == 0 and _wall_signal_seen and job.cluster == "slurm":
        _requeue(job_id)
    return outcome


def install_handlers() -> None:
    """Take USR2 (the wall comes) and SIGTERM from submitit's handlers: both ask the training loop to save and stop.

    submitit's own would requeue from rank 0 while the others train on. A hang-up of the terminal and a keyboard's
    interrupt are the launcher's business, which asks the ranks by SIGTERM.
    """
    signal.signal(signal.SIGUSR2, _on_wall_signal)
    signal.signal(signal.SIGTERM, _on_terminate)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _on_wall_signal(signum: int, frame: FrameType | None) -> None:
    global _wall_signal_seen
    _wall_signal_seen = True
    request_stop("the time limit is near (SIGUSR2)")


def _on_terminate(signum: int, frame: FrameType | None) -> None:
    request_stop("the job was asked to end (SIGTERM)")


def own_address(job: submitit.JobEnvironment) -> str:
    """Address of this job's first node, as rank 0 publishes it."""
    if job.cluster != "slurm":
        return "127.0.0.1"
    # Node names need not resolve everywhere; the step is launched from the batch host, which is the first node.
    return resolve_ipv4(job.hostnames[0], os.environ.get("SLURM_LAUNCH_NODE_IPADDR"))


def _requeue(job_id: str) -> None:
    """Put the job back into the queue under its id; only rank 0 does, after every rank has saved."""
    result = subprocess.run(["scontrol", "requeue", job_id], capture_output=True, text=True, timeout=60, check=False)
    if result.returncode != 0:
        raise TrainingError(f"job {job_id} saved and stopped, but could not be requeued: {result.stderr.strip()}")
