from itertools import islice

import numpy as np
import pytest

from neox_train.data.loader import iterate_batches, validation_batches
from neox_train.data.order import SampleOrder
from neox_train.data.windows import Windows
from neox_train.errors import DataError


class Ramp:
    """A stream whose token at place i is i."""

    def __init__(self, num_tokens: int) -> None:
        self.num_tokens = num_tokens

    def read(self, start: int, stop: int) -> np.ndarray:
        return np.arange(start, stop, dtype=np.uint32)


SEQ_LENGTH = 8
WINDOWS = Windows(Ramp(37 * SEQ_LENGTH + 5), SEQ_LENGTH)
ORDER = SampleOrder(len(WINDOWS), seed=9)


def samples_of_steps(*, micro_batch: int, dp: int, gas: int, steps: int, consumed: int = 0) -> list[list[list[int]]]:
    """Windows read in each step, in the global order: micro-batch after micro-batch, rank after rank."""
    ranks = [
        iterate_batches(
            WINDOWS,
            ORDER,
            micro_batch=micro_batch,
            dp_rank=rank,
            dp_size=dp,
            gradient_accumulation_steps=gas,
            consumed_samples=consumed,
        )
        for rank in range(dp)
    ]
    result = []
    for _ in range(steps):
        step: list[int] = []
        for _ in range(gas):
            for rank in ranks:
                batch = next(rank)
                assert batch.dtype == np.int64 and batch.shape == (micro_batch, SEQ_LENGTH + 1)
                assert (np.diff(batch) == 1).all()
                step.extend((batch[:, 0] // SEQ_LENGTH).tolist())
        result.append(step)
    return result


LAYOUTS = [(12, 1, 1), (1, 12, 1), (1, 1, 12), (2, 3, 2), (3, 2, 2), (2, 2, 3), (6, 2, 1), (4, 1, 3)]


@pytest.mark.parametrize(("micro_batch", "dp", "gas"), LAYOUTS)
def test_the_order_is_the_same_for_every_layout_of_a_global_batch(micro_batch, dp, gas):
    steps = 8
    wanted = [ORDER[sample] for sample in range(12 * steps)]
    got = samples_of_steps(micro_batch=micro_batch, dp=dp, gas=gas, steps=steps)
    assert [window for step in got for window in step] == wanted
    assert sorted(wanted[: len(WINDOWS)]) == list(range(len(WINDOWS)))


@pytest.mark.parametrize(("micro_batch", "dp", "gas"), LAYOUTS)
def test_resuming_gives_the_tail_whatever_the_layout(micro_batch, dp, gas):
    unbroken = samples_of_steps(micro_batch=2, dp=3, gas=2, steps=9)
    resumed = samples_of_steps(micro_batch=micro_batch, dp=dp, gas=gas, steps=5, consumed=4 * 12)
    assert resumed == unbroken[4:]


def test_another_global_batch_goes_on_where_the_consumed_samples_end():
    (step,) = samples_of_steps(micro_batch=5, dp=1, gas=1, steps=1, consumed=7)
    assert step == [ORDER[sample] for sample in range(7, 12)]


def test_windows_share_one_token_and_leave_the_rest():
    assert len(WINDOWS) == 37
    assert WINDOWS[3].tolist() == list(range(24, 33)) and WINDOWS[4][0] == WINDOWS[3][-1]
    assert len(Windows(Ramp(9), 8)) == 1 and len(Windows(Ramp(8), 8)) == 0 and len(Windows(Ramp(0), 8)) == 0
    with pytest.raises(IndexError):
        WINDOWS[37]


def test_validation_is_the_first_windows_in_order_each_time():
    def read(dp: int, batches: int) -> list[int]:
        ranks = [
            [
                batch[:, 0] // SEQ_LENGTH
                for batch in validation_batches(WINDOWS, micro_batch=2, dp_rank=rank, dp_size=dp, batches=batches)
            ]
            for rank in range(dp)
        ]
        return np.stack(ranks, axis=1).ravel().tolist()

    assert read(dp=1, batches=6) == read(dp=3, batches=2) == read(dp=3, batches=2) == list(range(12))
    assert read(dp=3, batches=100) == list(range(36))
    assert list(validation_batches(WINDOWS, micro_batch=2, dp_rank=0, dp_size=1, batches=0)) == []


def test_a_validation_split_below_one_batch_is_refused_at_the_call():
    with pytest.raises(DataError, match="37 windows of 8 tokens, one batch needs 40"):
        validation_batches(WINDOWS, micro_batch=10, dp_rank=0, dp_size=4, batches=1)


def test_batches_never_end_and_keep_nothing():
    batches = iterate_batches(
        WINDOWS, ORDER, micro_batch=2, dp_rank=0, dp_size=1, gradient_accumulation_steps=1, consumed_samples=0
    )
    first = next(batches)
    assert not any(np.shares_memory(first, batch) for batch in islice(batches, 100))
