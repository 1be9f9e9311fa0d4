"""A training in Slurm: submitted through submitit, asked after with one squeue for all runs, found again by name."""

from __future__ import annotations

import time

from neox_train.cluster.job_note import JobNote
from neox_train.cluster.jobs import ENDED, PENDING, UNKNOWN, JobState
from neox_train.cluster.ledger import Attempt
from neox_train.cluster.parameters import rank_python, slurm_parameters
from neox_train.cluster.queue_board import QueueBoard, QueueEntry, QueueLook, ask_interval_seconds
from neox_train.cluster.rank_record import FINISHED, find_job_id, list_starts, read_start
from neox_train.cluster.sbatch import SbatchExecutor, wait_for_sbatch
from neox_train.cluster.signal_lead import choose_lead_seconds
from neox_train.cluster.slurm_state import ask_accounting, classify, find_by_name, is_limbo, on_cluster, run_command
from neox_train.cluster.snapshot import code_variables, note_snapshot, take_snapshot
from neox_train.cluster.worker import run_rank
from neox_train.config.cluster import Cluster
from neox_train.config.layout import RunFolder
from neox_train.errors import TrainingError

_LIMBO_SECONDS = 10.0
"""squeue shows a requeued job as pending at once; what stays NODE_FAIL or PREEMPTED for longer is over."""
_ACCOUNTING_LIMBO_SECONDS = 120.0
_GONE_SECONDS = 10.0
"""For the ranks' last words to arrive over a network file system."""
_NAME_LOOKS = 3
_NAME_PAUSE_SECONDS = 1.0


class SlurmJob:
    """One job of a run; it goes on when nobody follows it."""

    survives_launcher = True

    def __init__(self, run: RunFolder, attempt: Attempt, job_id: str, cluster_name: str | None) -> None:
        self.job_id = job_id
        self.cluster_name = cluster_name
        self.folder = run.path / attempt.folder
        self.processes = attempt.processes
        self.ask_seconds = ask_interval_seconds()
        self.poll_seconds = min(5.0, self.ask_seconds)
        self._submitted = attempt.submitted
        self._board = QueueBoard.of(run, cluster_name)
        self._unsure_since: tuple[str, float] | None = None

    @classmethod
    def submit(cls, run: RunFolder, cluster: Cluster, attempt: Attempt) -> SlurmJob:
        """Submit the job of an attempt, whose intent is in the ledger already.

        Raises TrainingError when sbatch refuses, UnclearSubmissionError when the job may exist all the same: the
        attempt stays open then, and ``attach`` looks for its name.
        """
        folder = (run.path / attempt.folder).absolute()
        lead = choose_lead_seconds(cluster, run)
        JobNote.write(folder, cluster, signal_lead_seconds=lead)
        snapshot = take_snapshot(run)
        note_snapshot(run, snapshot)
        code = code_variables(snapshot)
        try:
            executor = SbatchExecutor(folder=folder, python=rank_python(cluster))
        except RuntimeError as error:
            raise TrainingError(f"run {run.name} was not submitted: {error}") from error
        executor.update_parameters(
            **slurm_parameters(cluster, attempt.nodes, name=attempt.name, signal_lead_seconds=lead, code=code)
        )
        job_id = executor.submit_one(run_rank, str(run.path.absolute()))
        return cls(run, attempt, job_id, executor.cluster_name)

    @classmethod
    def attach(cls, run: RunFolder, attempt: Attempt) -> SlurmJob | None:
        """The job of an open attempt; None when it was never queued.

        Raises SlurmSilentError while Slurm does not answer.
        """
        if attempt.job_id:
            return cls(run, attempt, attempt.job_id, attempt.cluster_name)
        folder = run.path / attempt.folder
        wait_for_sbatch(folder)
        # A job that has started is known by its files, also when Slurm has forgotten it or does not answer.
        if job_id := find_job_id(folder):
            return cls(run, attempt, job_id, attempt.cluster_name)
        for look in range(_NAME_LOOKS):
            if look:
                time.sleep(_NAME_PAUSE_SECONDS)
            if job_id := find_by_name(attempt.name, attempt.submitted):
                return cls(run, attempt, job_id, attempt.cluster_name)
        return None

    def state(self) -> JobState:
        """Finished by the ranks' own records, else squeue's word, else the accounting's, else that it is gone.

        A node failure counts as an end only when it lasts. While Slurm does not answer the state is unknown.
        """
        if self._all_finished():
            return JobState(ENDED, "COMPLETED")
        look = self.look()
        entry = look.jobs.get(self.job_id)
        if entry:
            return self._settle("queue", self._describe(entry, look), _LIMBO_SECONDS)
        told = ask_accounting(self.job_id, self._submitted, self.cluster_name)
        if told and (told.phase == ENDED or not look.error):
            return self._settle("accounting", told, _ACCOUNTING_LIMBO_SECONDS)
        if look.error:
            since = time.strftime("%H:%M:%S", time.localtime(look.answered)) if look.answered else "the start"
            return JobState(UNKNOWN, f"Slurm does not answer since {since} ({look.error}); the job goes on")
        return self._settle("gone", JobState(ENDED, "GONE"), _GONE_SECONDS)

    def look(self) -> QueueLook:
        """squeue's present answer; never one from before the submission."""
        return self._board.look(newer_than=max(self._submitted, time.time() - 0.9 * self.ask_seconds))

    def _all_finished(self) -> bool:
        # Rank 0 alone first: a large job has hundreds of records on a network file system.
        newest = list_starts(self.folder, self.job_id)[-1:]
        first = read_start(self.folder, self.job_id, 1, newest[0]) if newest else {}
        if not first or first[0].outcome != FINISHED:
            return False
        records = read_start(self.folder, self.job_id, self.processes, newest[0])
        return len(records) == self.processes and all(r.outcome == FINISHED for r in records.values())

    def _settle(self, source: str, state: JobState, seconds: float) -> JobState:
        """``state``, unless it is an end that may yet be undone: then pending until it has lasted."""
        if not is_limbo(state) and state.word != "GONE":
            self._unsure_since = None
            return state
        key = f"{source} {state.word}"
        if self._unsure_since is None or self._unsure_since[0] != key:
            self._unsure_since = (key, time.monotonic())
        lasted = time.monotonic() - self._unsure_since[1] >= seconds
        return state if lasted else JobState(PENDING, state.detail)

    def _describe(self, entry: QueueEntry, look: QueueLook) -> JobState:
        state = classify(entry.state, entry.reason)
        if state.phase != PENDING or entry.state != "PENDING":
            return state
        parts = [state.detail]
        if place := look.position(self.job_id):
            parts.append(f"place {place[0]} of {place[1]} in {entry.partition}")
        if entry.start_estimate not in ("", "N/A"):
            parts.append(f"start expected {entry.start_estimate.replace('T', ' ')}")
        return JobState(PENDING, ", ".join(parts))

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
        """Cancel the job; raises TrainingError when Slurm refuses."""
        self._scancel()

    def _scancel(self, *options: str) -> None:
        answer = run_command(["scancel", *on_cluster(self.cluster_name), *options, self.job_id])
        if answer.code != 0:
            raise TrainingError(f"scancel of job {self.job_id} failed: {(answer.err or answer.out).strip()}")
