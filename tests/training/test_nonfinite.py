import pytest

from neox_train.errors import TrainingError
from neox_train.training.nonfinite import SkipCounter


def count(counter: SkipCounter, applied: bool, step: int = 1) -> None:
    counter.count(
        step=step,
        applied=applied,
        loss=float("nan"),
        loss_scale=None,
        checkpoint="the newest checkpoint is step_00000010",
    )


def test_skips_are_counted_and_an_update_ends_the_streak() -> None:
    counter = SkipCounter(total=3, limit=3)
    for applied in (False, False, True, False):
        count(counter, applied)
    assert (counter.total, counter.streak) == (6, 1)


def test_the_limit_ends_the_run_with_the_step_and_the_checkpoint() -> None:
    counter = SkipCounter(limit=2)
    count(counter, False, step=11)
    with pytest.raises(TrainingError, match=r"step 12.*2 consecutive steps.*step_00000010.*`warmup`"):
        count(counter, False, step=12)
