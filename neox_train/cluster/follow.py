"""Follow one job to its end."""

from __future__ import annotations

from neox_train.cluster.endings import DETACHED, INTERRUPTED, STOPPED, Ending, ending_of, first_failure, log_tail
from neox_train.cluster.jobs import ENDED, PENDING, Job, JobState
from neox_train.cluster.progress import MetricsTail
from neox_train.cluster.rank_record import log_file, read_records
from neox_train.cluster.reporter import Reporter
from neox_train.cluster.stop_signals import StopSignals


def follow_job(job: Job, tail: MetricsTail, train_iters: int, reporter: Reporter, signals: StopSignals) -> Ending:
    """Poll until the job is over; show its progress, and the failing rank's last lines if it fails."""
    asked = 0
    while True:
        if signals.count > asked:
            asked = signals.count
            if ending := _obey_signal(job, asked, reporter, signals):
                return ending
        state = job.state()
        reporter.show(_line(state, tail, train_iters))
        if ending := _look_for_end(job, state, asked > 0, signals):
            tail.read(train_iters)
            _quote_failing_rank(job, ending, reporter)
            return ending
        signals.pause(job.poll_seconds)


def _obey_signal(job: Job, asked: int, reporter: Reporter, signals: StopSignals) -> Ending | None:
    if job.survives_launcher:
        return Ending(DETACHED, f"{signals.name}: no longer following job {job.job_id}, which goes on")
    if asked == 1:
        job.request_stop()
        reporter.say(f"{signals.name}: the ranks save and stop (once more to end them at once)")
        return None
    job.end()
    return Ending(INTERRUPTED, f"ended at once by {signals.name}")


def _look_for_end(job: Job, state: JobState, asked: bool, signals: StopSignals) -> Ending | None:
    # The state is older than the records: an ended job's records are its last ones.
    records = read_records(job.folder, job.job_id, job.processes)
    failure = None if job.ends_with_its_first_rank() else first_failure(records, job.vanished_ranks())
    if failure is None and state.phase != ENDED:
        return None
    ending = failure or ending_of(records, job.processes, state.detail)
    if not job.survives_launcher:
        job.end()
    if asked and ending.outcome == STOPPED:
        return Ending(INTERRUPTED, f"saved and stopped by {signals.name}")
    return ending


def _quote_failing_rank(job: Job, ending: Ending, reporter: Reporter) -> None:
    if ending.rank is None or not ending.retry:
        # A user's error is one sentence, which the caller prints.
        return
    if lines := log_tail(job.folder, job.job_id, ending.rank):
        file = log_file(job.folder, job.job_id, ending.rank)
        reporter.quote(f"rank {ending.rank} failed; its last {len(lines)} lines ({file}):", lines)


def _line(state: JobState, tail: MetricsTail, train_iters: int) -> str:
    progress = tail.read(train_iters)
    if state.phase == PENDING:
        return f"waiting in the queue {state.detail}".rstrip()
    if progress is None or tail.steps == (None, None):
        return "the ranks start"
    return str(progress)
