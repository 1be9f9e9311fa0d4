from pathlib import Path

import pytest

from neox_train.cluster.rank_record import RankRecord
from neox_train.cluster.start_limit import require_progress
from neox_train.errors import TrainingError


def begin(folder: Path, *steps: int) -> RankRecord:
    return [RankRecord.begin(folder, "7", 0, start, step=step) for start, step in enumerate(steps)][-1]


@pytest.mark.parametrize("steps", [(0,), (0, 0), (4, 4), (0, 4, 4), (4, 4, 9)])
def test_progress_and_few_starts_are_fine(tmp_path: Path, steps: tuple[int, ...]) -> None:
    require_progress(tmp_path, "7", begin(tmp_path, *steps), starts_allowed=2)


def test_starts_without_a_new_step_end_the_job(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="started 2 times since step 4 without a new step"):
        require_progress(tmp_path, "7", begin(tmp_path, 0, 4, 4, 4), starts_allowed=2)
