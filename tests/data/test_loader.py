from itertools import islice

import numpy as np
import pytest

from neox_train.data.loader import iterate_batches, tell_short_split, validation_batches
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


def held_out(*, micro_batch: int, dp: int, gas: int, eval_iters: int, windows: Windows = WINDOWS) -> list[int]:
    """Windows that all ranks read, in the global order."""
    ranks = [
        [
            batch[:, 0] // SEQ_LENGTH
            for batch in validation_batches(
                windows,
                micro_batch=micro_batch,
                dp_rank=rank,
                dp_size=dp,
                gradient_accumulation_steps=gas,
                eval_iters=eval_iters,
            )
        ]
        for rank in range(dp)
    ]
    assert len({len(batches) for batches in ranks}) == 1
    return np.stack(ranks, axis=1).ravel().tolist()


@pytest.mark.parametrize(("micro_batch", "dp", "gas"), LAYOUTS)
def test_validation_reads_the_same_windows_in_every_layout_of_a_global_batch(micro_batch, dp, gas):
    layout = {"micro_batch": micro_batch, "dp": dp, "gas": gas}
    assert held_out(**layout, eval_iters=2) == held_out(**layout, eval_iters=2) == list(range(24))
    assert held_out(**layout, eval_iters=100) == list(range(36))
    few = Windows(Ramp(5 * SEQ_LENGTH + 1), SEQ_LENGTH)
    assert held_out(**layout, eval_iters=3, windows=few) == [0, 1, 2, 3, 4] * 2 + [0, 1]
    one = validation_batches(
        WINDOWS, micro_batch=micro_batch, dp_rank=0, dp_size=dp, gradient_accumulation_steps=gas, eval_iters=0
    )
    assert list(one) == []


def test_a_short_split_is_told_once_and_one_without_a_window_is_refused():
    assert tell_short_split("test", 24, eval_iters=2, global_batch=12) == ""
    assert tell_short_split("test", 23, eval_iters=2, global_batch=12) == (
        "the test split has 23 windows, fewer than the 24 of `eval_iters` 2: each time 1 of 2 global batches are read"
    )
    assert "one global batch of 12 is read, in which windows repeat" in tell_short_split(
        "validation", 5, eval_iters=2, global_batch=12
    )
    empty = Windows(Ramp(SEQ_LENGTH), SEQ_LENGTH)
    with pytest.raises(DataError, match=r"the validation split has no window of `seq_length` 8 \+ 1 tokens"):
        held_out(micro_batch=1, dp=1, gas=1, eval_iters=1, windows=empty)


def test_batches_never_end_and_keep_nothing():
    batches = iterate_batches(
        WINDOWS, ORDER, micro_batch=2, dp_rank=0, dp_size=1, gradient_accumulation_steps=1, consumed_samples=0
    )
    first = next(batches)
    assert not any(np.shares_memory(first, batch) for batch in islice(batches, 100))
