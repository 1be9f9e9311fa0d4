"""What a job runs in every rank: the one function that is submitted.

It is importable by name, takes a string and imports no torch before training starts, so that the submitting and the
computing Python may differ.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

import submitit

from neox_train.cluster import causes
from neox_train.cluster.environment import rank_variables
from neox_train.cluster.health import require_health, require_network
from neox_train.cluster.job_note import JobNote
from neox_train.cluster.nodelist import expand_nodes, require_even
from neox_train.cluster.rank_record import FAILED, FINISHED, STOPPED, RankRecord
from neox_train.cluster.rank_signals import install_handlers, signal_seen
from neox_train.cluster.rendezvous import agree_on_address, find_address
from neox_train.cluster.requeue import ask_job, requeue_job, why_stopped
from neox_train.cluster.start_limit import require_progress
from neox_train.cluster.start_note import write_start_note
from neox_train.cluster.topology import tell_topology
from neox_train.cluster.transport import transport_variables, watches_transport
from neox_train.config.layout import RunFolder
from neox_train.errors import UserError
from neox_train.locks import hold_lock
from neox_train.monitoring.flight_recorder import recorder_folder, recorder_variables
from neox_train.monitoring.metrics import last_record
from neox_train.training.stall import report_stalls_to

START_SECONDS = 300.0
"""How long ranks wait for each other to start, and for the ranks of an ended job to go."""


def ranks_lock(run: RunFolder) -> Path:
    """The lock that every rank of a run shares: free when no rank of the run lives."""
    return run.path / ".ranks.lock"


def trainer_lock(run: RunFolder) -> Path:
    """The lock of rank 0: two jobs of one run, however they came to be, never write the same files."""
    return run.path / ".trainer.lock"


def run_rank(run_folder: str) -> str:
    """Train the run in ``run_folder`` as one rank; ``finished`` or ``stopped`` (asked to stop, and saved).

    The rank, the number of ranks and the log folder come from submitit's job environment.
    """
    # First of all: until then a signal would kill the process.
    install_handlers()
    run = RunFolder(Path(run_folder))
    job = submitit.JobEnvironment()
    folder, job_id, rank = job.paths.folder, job.job_id, job.global_rank
    start = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
    record = RankRecord.begin(folder, job_id, rank, start, step=_last_step(run) if rank == 0 else 0)
    report_stalls_to(lambda sentence: record.end(folder, job_id, FAILED, sentence, cause=causes.HANG))
    try:
        outcome = _train(run, job, record)
    except UserError as error:
        # No traceback for the user's own: what the follower shows is this sentence.
        print(f"error: {error}", file=sys.stderr, flush=True)
        record.end(folder, job_id, FAILED, str(error), retry=error.retry, cause=error.cause)
        sys.exit(error.exit_code)
    except BaseException as error:
        record.end(folder, job_id, FAILED, f"{type(error).__name__}: {error}", cause=causes.ERROR)
        raise
    if outcome == FINISHED:
        record.end(folder, job_id, FINISHED, cause=causes.FINISHED)
        return outcome
    in_slurm = job.cluster == "slurm"
    facts = ask_job(job_id) if in_slurm and rank == 0 else ""
    cause = why_stopped(JobNote.read(folder), facts, start=start, seconds=time.time() - record.started)
    record.end(folder, job_id, STOPPED, f"saved and stopped on {signal_seen() or 'the word of a peer'}", cause=cause)
    if in_slurm and rank == 0:
        requeue_job(folder, job_id, job.num_tasks, start)
    return outcome


def _last_step(run: RunFolder) -> int:
    return int((last_record(run.metrics, "train") or {}).get("step", 0))


def _train(run: RunFolder, job: submitit.JobEnvironment, record: RankRecord) -> str:
    folder, job_id, rank, start = job.paths.folder, job.job_id, job.global_rank, record.start
    note = JobNote.read(folder) if job.cluster == "slurm" else None
    if note:
        require_even(os.environ.get("SLURM_STEP_TASKS_PER_NODE") or os.environ.get("SLURM_TASKS_PER_NODE", "1"))
        if rank == 0:
            require_progress(folder, job_id, record, starts_allowed=max(1, note.cluster.max_restarts))
        require_health(note, run, local_rank=job.local_rank)
        if rank == 0:
            tell_topology(run, job.num_tasks)
    with contextlib.ExitStack() as locks:
        locks.enter_context(hold_lock(ranks_lock(run), shared=True, wait_seconds=START_SECONDS))
        if rank == 0:
            only = hold_lock(trainer_lock(run), note=f"rank 0 of job {job_id}", wait_seconds=START_SECONDS)
            locks.enter_context(only)
        address, port = agree_on_address(
            folder, job_id=job_id, start=start, rank=rank, address=own_address(job), wait_seconds=START_SECONDS
        )
        os.environ.update(
            rank_variables(rank=rank, world_size=job.num_tasks, local_rank=job.local_rank, address=address, port=port)
        )
        for name, value in recorder_variables(recorder_folder(folder, job_id, start)).items():
            os.environ.setdefault(name, value)
        if note and watches_transport(note.cluster, _count_nodes()):
            os.environ.update(transport_variables(folder, start))
        from neox_train.training.entry import train_rank

        after_start = (lambda: require_network(note, folder)) if note else None

        def tell_start(sentences: list[str]) -> None:
            write_start_note(folder, job_id, start, sentences)

        outcome = train_rank(str(run.path), after_start=after_start, tell_start=tell_start)
        return FINISHED if outcome == FINISHED else STOPPED


def _count_nodes() -> int:
    return len(expand_nodes(os.environ["SLURM_JOB_NODELIST"])) if "SLURM_JOB_NODELIST" in os.environ else 1


def own_address(job: submitit.JobEnvironment) -> str:
    """Address of this job's first node, as rank 0 publishes it; empty on the other ranks, which do not ask for it."""
    if job.cluster != "slurm":
        return "127.0.0.1"
    if job.global_rank != 0:
        return ""
    nodes = expand_nodes(os.environ["SLURM_JOB_NODELIST"])
    return find_address(nodes[0], several_nodes=len(nodes) > 1)
