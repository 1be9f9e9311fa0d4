"""A job that Slurm starts again and again without a new step ends itself."""

from __future__ import annotations

from pathlib import Path

from neox_train.cluster.rank_record import RankRecord, list_starts, record_file
from neox_train.errors import TrainingError
from neox_train.files import read_record


def require_progress(folder: Path, job_id: str, record: RankRecord, *, starts_allowed: int) -> None:
    """Raise TrainingError when the last ``starts_allowed`` starts of the job all began at the step this one begins at.

    Rank 0 calls it: Slurm requeues after node failures without asking anybody, and a follower need not be there.
    """
    earlier = [start for start in list_starts(folder, job_id) if start < record.start][-starts_allowed:]
    steps = [(read_record(record_file(folder, job_id, 0, start)) or {}).get("step") for start in earlier]
    if len(steps) == starts_allowed and set(steps) == {record.step}:
        raise TrainingError(
            f"job {job_id} was started {starts_allowed} times since step {record.step} without a new step, so it ends; "
            f"the logs in {folder} say how each start ended"
        )
