"""submitit's Slurm executor with a stricter reading of what sbatch prints."""

from __future__ import annotations

import re

import submitit
from submitit.core.utils import FailedSubmissionError

_SUBMITTED = re.compile(r"^Submitted batch job (\d+)(?: on cluster (\S+))?\s*$", re.MULTILINE)


def read_submission(output: str) -> tuple[str, str | None]:
    """Job id, and the cluster's name on a federation, from sbatch's output; banners and notices are passed over.

    Raises FailedSubmissionError quoting the output where it names no job, or several: the job may exist.
    """
    found = _SUBMITTED.findall(output)
    if len(found) != 1:
        raise FailedSubmissionError(
            f"sbatch printed `{output.strip()}`, which names no job id; the job may be queued all the same, and the "
            "next start of the same command looks for it by name"
        )
    job_id, cluster = found[0]
    return job_id, cluster or None


class SbatchExecutor(submitit.SlurmExecutor):
    """SlurmExecutor that remembers the cluster of a federation."""

    cluster_name: str | None = None

    def _get_job_id_from_submission_command(self, string: bytes | str) -> str:
        text = string if isinstance(string, str) else string.decode(errors="replace")
        job_id, self.cluster_name = read_submission(text)
        return job_id
