"""submitit's Slurm executor with a stricter reading of sbatch, and a job that starts though its submitter died."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import subprocess
import time
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import DelayedSubmission, JobPaths

from neox_train.cluster.environment import clean_variables
from neox_train.errors import TrainingError

SBATCH_SECONDS = 120.0
_SUBMITTED = re.compile(r"^Submitted batch job (\d+)(?: on cluster (\S+))?\s*$", re.MULTILINE)
_PARSABLE = re.compile(r"^(\d+)(?:;(\S+))?\s*$", re.MULTILINE)
_UNCLEAR = ("timed out", "timeout", "unable to contact", "connection", "socket", "communication", "try again")
_LOCK = ".sbatch.lock"
_PICKLE = "submitted.pkl"


class UnclearSubmissionError(TrainingError):
    """sbatch gave no job id, and the job may be queued all the same."""


class UnansweredSubmissionError(UnclearSubmissionError):
    """Slurm's controller did not answer sbatch: the job may be queued, and may be submitted again once it is not."""


def read_submission(output: str) -> tuple[str, str | None]:
    """Job id, and the cluster's name on a federation, from sbatch's output; banners and notices are passed over.

    Raises UnclearSubmissionError quoting the output where it names no job, or several: the job may exist.
    """
    for pattern in (_SUBMITTED, _PARSABLE):
        found = pattern.findall(output)
        if len(found) == 1:
            job_id, cluster = found[0]
            return job_id, cluster or None
    raise UnclearSubmissionError(
        f"sbatch printed `{output.strip()}`, which names no job id; the job may be queued all the same, and the "
        "next start of the same command looks for it by name"
    )


class SbatchExecutor(submitit.SlurmExecutor):
    """Submits one function; remembers the cluster of a federation.

    submitit names the file with the function after the job's id, once sbatch has told it: a submitter killed between
    the two would leave a job without its function. Here the file is there before, and the job's script takes it.
    """

    cluster_name: str | None = None

    def submit_one(self, function: Any, *arguments: str) -> str:
        """Submit ``function(*arguments)`` and return the job's id; raises TrainingError in sbatch's words."""
        folder = Path(self.folder)
        delayed = DelayedSubmission(function, *arguments)
        delayed.set_timeout(self.parameters["time"], 0)
        delayed.dump(folder / _PICKLE)
        name = JobPaths(folder, job_id="${SLURM_JOB_ID}").submitted_pickle.name
        take = f'cp -f {shlex.quote(str(folder / _PICKLE))} {shlex.quote(str(folder))}/"{name}"'
        self.parameters["setup"] = [*self.parameters.get("setup", []), take]
        script = folder / "submission.sh"
        script.write_text(self._make_submission_file_text(self._submitit_command_str, ""))
        job_id, self.cluster_name = read_submission(call_sbatch(script, folder))
        return job_id


def call_sbatch(script: Path, folder: Path) -> str:
    """What sbatch printed; it holds a lock that outlives this process, so that nobody takes its job for absent."""
    with open(folder / _LOCK, "w") as lock:
        held = _try_lock(lock.fileno())
        try:
            result = subprocess.run(
                ["sbatch", "--parsable", str(script)],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SBATCH_SECONDS,
                check=False,
                env=clean_variables(),
                pass_fds=(lock.fileno(),) if held else (),
            )
        except FileNotFoundError as error:
            raise TrainingError("`sbatch` is not found; submit from a login node of the cluster") from error
        except subprocess.TimeoutExpired as error:
            raise UnansweredSubmissionError(
                f"sbatch did not answer within {SBATCH_SECONDS:.0f} s; the job may be queued all the same, and the "
                "next start of the same command looks for it by name"
            ) from error
    if result.returncode == 0:
        return result.stdout
    words = " ".join((result.stderr.strip() or result.stdout.strip() or "no reason given").split())
    kind = UnansweredSubmissionError if any(word in words.lower() for word in _UNCLEAR) else TrainingError
    raise kind(f"sbatch refused the job: {words}")


def wait_for_sbatch(folder: Path, *, seconds: float = SBATCH_SECONDS) -> None:
    """Return once no sbatch of an earlier process is under way for the attempt with this log folder, or time is up."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        deadline = time.monotonic() + seconds
        while not _try_lock(descriptor) and time.monotonic() < deadline:
            time.sleep(0.2)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
