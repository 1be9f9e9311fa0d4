import os
from pathlib import Path

import pytest

from neox_train.errors import DataError, TrainingError
from neox_train.training.distributed import RankContext, reduce_max, reduce_sum, run_on_main, start_process_group
from tests.gloo import EXPORTED, run_ranks


def test_a_process_without_rank_variables_trains_alone(alone: RankContext) -> None:
    assert (alone.rank, alone.world_size, alone.local_rank) == (0, 1, 0)
    assert alone.is_main
    assert alone.device.type == "cpu"
    assert os.environ["WORLD_SIZE"] == "1"


def test_half_a_set_of_rank_variables_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in EXPORTED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(TrainingError, match="LOCAL_RANK, MASTER_ADDR, MASTER_PORT not set"):
        start_process_group("gloo")


def test_reductions_of_one_rank_are_its_own_values(alone: RankContext) -> None:
    assert reduce_sum([0.1, 0.2], alone) == [0.1, 0.2]
    assert reduce_max(0.3, alone) == 0.3


def test_an_error_on_the_main_rank_keeps_its_kind(alone: RankContext) -> None:
    def fail() -> None:
        raise DataError("the sentence")

    assert run_on_main(lambda: 7) == 7
    with pytest.raises(DataError, match="the sentence"):
        run_on_main(fail)


@pytest.mark.full
@pytest.mark.distributed
@pytest.mark.parametrize("repeat", range(6))
def test_ranks_end_well_right_after_their_last_collective(tmp_path: Path, repeat: int) -> None:
    # Without time for gloo's threads to let go, two ends in three were aborts.
    run_ranks("tests.training.leaving_worker", tmp_path / "none", 2)
