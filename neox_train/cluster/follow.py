"""Follow one job to its end."""

from __future__ import annotations

from dataclasses import dataclass, field

from neox_train.cluster import causes
from neox_train.cluster.endings import (
    CANCELLED,
    DETACHED,
    FINISHED,
    INTERRUPTED,
    STOPPED,
    Ending,
    ending_of,
    first_failure,
    log_tail,
)
from neox_train.cluster.jobs import ENDED, PENDING, UNKNOWN, Job, JobState
from neox_train.cluster.ledger import Ledger
from neox_train.cluster.log_words import heed_log, tells_of_error
from neox_train.cluster.progress import MetricsTail
from neox_train.cluster.rank_record import list_starts, log_file, read_beginnings, read_records
from neox_train.cluster.reporter import Reporter
from neox_train.cluster.start_note import read_start_note
from neox_train.cluster.starts import describe_starts
from neox_train.cluster.stop_signals import StopSignals
from neox_train.config.layout import RunFolder
from neox_train.errors import StorageError

_VAGUE_WORDS = ("", "GONE", "FAILED")
"""What Slurm says of a job that it has forgotten, and of any whose processes did not end well."""


@dataclass
class Follower:
    """Follows the newest attempt of ``ledger``, whose job is ``job``."""

    run: RunFolder
    job: Job
    ledger: Ledger
    train_iters: int
    reporter: Reporter
    signals: StopSignals
    _asked: int = 0
    _told: tuple[str, str] = ("", "")
    _starts_seen: int = 0
    _beginnings_seen: int = 0
    _start_told: int = -1
    _tail: MetricsTail = field(init=False)

    def __post_init__(self) -> None:
        self._tail = MetricsTail(self.run.metrics, since=self.ledger.attempts[-1].submitted)

    @property
    def steps(self) -> tuple[int | None, int | None]:
        """First and last step that the attempt has logged."""
        return self._tail.steps

    def follow(self) -> Ending:
        """Poll until the job is over; show its progress, and the failing rank's last lines if it fails.

        Ranks that do not outlive their follower end with it, whatever ends it. Raises StorageError where the run's
        folder is gone.
        """
        try:
            return self._follow()
        except BaseException:
            if not self.job.survives_launcher:
                self.job.end()
            raise

    def _follow(self) -> Ending:
        while True:
            self._require_folder()
            if self.signals.count > self._asked:
                self._asked = self.signals.count
                if ending := self._obey_signal():
                    return ending
            state = self.job.state()
            self._tell_start()
            self.reporter.show(self._line(state), at_once=(state.phase, state.word) != self._told)
            self._told = (state.phase, state.word)
            self._note_beginning()
            self._note_starts(is_over=False)
            if ending := self._look_for_end(state):
                self._tail.read(self.train_iters)
                self._note_starts(is_over=ending.outcome != DETACHED)
                self._tell_start()
                self._quote_failing_rank(ending)
                return ending
            self.signals.pause(self.job.poll_seconds)

    def _require_folder(self) -> None:
        """The ranks themselves may make the folder again, with their last words alone in it."""
        if self.ledger.is_there():
            return
        job = self.job
        fate = f"job {job.job_id} goes on; end it with scancel" if job.survives_launcher else "its ranks were ended"
        raise StorageError(
            f"{self.run.path} was removed while the run trained, so {fate}; the same command starts again, from the "
            "newest checkpoint that is left"
        )

    def _obey_signal(self) -> Ending | None:
        job, name = self.job, self.signals.name
        if job.survives_launcher:
            return Ending(DETACHED, f"{name}: no longer following job {job.job_id}, which goes on")
        if self._asked == 1:
            job.request_stop()
            self.reporter.say(f"{name}: the ranks save and stop (once more to end them at once)")
            return None
        job.end()
        return Ending(INTERRUPTED, f"ended at once by {name}", cause=causes.SIGNAL)

    def _look_for_end(self, state: JobState) -> Ending | None:
        # The state is older than the records: an ended job's records are its last ones.
        job = self.job
        if job.ends_with_its_first_rank() and state.phase != ENDED:
            return None
        records = read_records(job.folder, job.job_id, job.processes)
        failure = None if job.ends_with_its_first_rank() else first_failure(records, job.vanished_ranks())
        if failure is None and state.phase != ENDED:
            return None
        ending = failure or ending_of(records, job.processes, state)
        if state.word in _VAGUE_WORDS:
            ending = heed_log(ending, log_tail(job.folder, job.job_id, 0))
        if not job.survives_launcher:
            job.end()
        return self._ascribe_stop(ending)

    def _ascribe_stop(self, ending: Ending) -> Ending:
        """What a stop that was asked for led to is no failure."""
        if not self._asked:
            return ending
        name = self.signals.name
        if ending.outcome == STOPPED:
            return Ending(INTERRUPTED, f"saved and stopped by {name}", cause=causes.SIGNAL)
        if ending.cause == causes.RANK_KILLED:
            # A rank that is only starting has no handler yet: the signal ends it.
            return Ending(INTERRUPTED, f"ended by {name} before rank {ending.rank} saved", cause=causes.SIGNAL)
        return ending

    def _note_beginning(self) -> None:
        """Write down when the ranks began: a job's time does not count while it is queued."""
        job = self.job
        if len(list_starts(job.folder, job.job_id)) == self._beginnings_seen:
            return
        begun = read_beginnings(job.folder, job.job_id, job.processes)
        self._beginnings_seen = len(begun)
        if not begun:
            # The folder was removed since the last look, which the next one tells.
            return
        if begun[0] != self._tail.since:
            # The ranks' own clock, which metrics.jsonl has too: the submitter's may be minutes off.
            self._tail.count_from(begun[0])
        changes = {"started": begun[0], "resumed": begun[-1] if len(begun) > 1 else None}
        self.ledger.update(self.ledger.attempts[-1], **changes)

    def _note_starts(self, *, is_over: bool) -> None:
        """Write down how the job's earlier starts ended, when there is a new one."""
        job = self.job
        if not job.survives_launcher:
            return
        known = len(list_starts(job.folder, job.job_id)) + is_over
        if known == self._starts_seen or known < 2:
            return
        self._starts_seen = known
        starts = describe_starts(job.folder, job.job_id, job.processes, is_over=False, cluster_name=job.cluster_name)
        for start in starts[len(self.ledger.attempts[-1].starts) :]:
            self.reporter.say(
                f"start {start['start'] + 1} of job {job.job_id} ended: {start['cause']}, {start['reason']}"
            )
        self.ledger.update(self.ledger.attempts[-1], starts=tuple(starts))

    def _tell_start(self) -> None:
        """Say once a start what rank 0 says of it: a checkpoint that was passed over is nobody's secret."""
        note = read_start_note(self.job.folder, self.job.job_id, after=self._start_told)
        if note is not None:
            self._start_told, sentences = note
            for sentence in sentences:
                self.reporter.say(sentence)

    def _quote_failing_rank(self, ending: Ending) -> None:
        if ending.outcome in (FINISHED, STOPPED, CANCELLED, DETACHED) or not ending.retry:
            # A user's error is one sentence, which the caller prints.
            return
        job = self.job
        # Rank 0's log has the batch script's and srun's words too.
        rank = ending.rank or 0
        lines = log_tail(job.folder, job.job_id, rank)
        if ending.cause == causes.RANK_KILLED and not tells_of_error(lines):
            # The steps it printed before somebody killed it are noise.
            return
        if lines:
            what = "the job failed; the" if ending.rank is None else f"rank {rank} failed; its"
            self.reporter.quote(f"{what} last {len(lines)} lines ({log_file(job.folder, job.job_id, rank)}):", lines)

    def _line(self, state: JobState) -> str:
        progress = self._tail.read(self.train_iters)
        if state.phase == PENDING:
            return f"job {self.job.job_id}: {state.detail}"
        training = progress is not None and self._tail.steps != (None, None)
        if state.phase == UNKNOWN:
            return f"{state.detail}" + (f"; {progress}" if training else "")
        return str(progress) if training else "the ranks start"
