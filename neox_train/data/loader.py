"""Batches of windows for one data-parallel rank. The only state is the number of samples consumed by all ranks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np

from neox_train.data.order import Order
from neox_train.data.windows import WindowSource
from neox_train.errors import DataError


def iterate_batches(
    windows: WindowSource,
    order: Order,
    *,
    micro_batch: int,
    dp_rank: int,
    dp_size: int,
    gradient_accumulation_steps: int,
    consumed_samples: int,
) -> Iterator[np.ndarray]:
    """Yield this rank's micro-batches, int64 [micro_batch, seq_length + 1], without end.

    After ``consumed_samples`` samples, sample p of rank r in micro-batch g of step t is the sample
    ``consumed_samples + ((t*gas + g)*dp_size + r)*micro_batch + p`` of the order: the samples of a step depend on
    the global batch alone, and a resumed training goes on where the consumed samples end.
    """
    for step in count():
        for accumulated in range(gradient_accumulation_steps):
            block = (step * gradient_accumulation_steps + accumulated) * dp_size + dp_rank
            first = consumed_samples + block * micro_batch
            yield windows.batch([order[first + place] for place in range(micro_batch)])


def count_held_out(num_windows: int, *, eval_iters: int, global_batch: int) -> int:
    """Global batches that a validation reads: ``eval_iters``, or those that a shorter split has, at least one."""
    return min(eval_iters, max(1, num_windows // global_batch))


def tell_short_split(name: str, num_windows: int, *, eval_iters: int, global_batch: int) -> str:
    """What to know of a split that has fewer windows than ``eval_iters`` global batches; empty where it has enough."""
    if num_windows >= eval_iters * global_batch or not num_windows:
        return ""
    count = count_held_out(num_windows, eval_iters=eval_iters, global_batch=global_batch)
    read = f"each time {count} of {eval_iters} global batches are read"
    if num_windows < global_batch:
        read = f"each time one global batch of {global_batch} is read, in which windows repeat"
    return (
        f"the {name} split has {num_windows} windows, fewer than the {eval_iters * global_batch} of `eval_iters` "
        f"{eval_iters}: {read}"
    )


def require_window(name: str, windows: WindowSource) -> None:
    """Raise DataError where a split that is to be measured has no window."""
    if not len(windows):
        raise DataError(
            f"the {name} split has no window of `seq_length` {windows.seq_length} + 1 tokens; give `splits.{name}` (of "
            ".bin/.idx files: `split`) a larger share, set `seq_length` lower, or `eval_iters: 0`"
        )


def validation_batches(
    windows: WindowSource,
    *,
    micro_batch: int,
    dp_rank: int,
    dp_size: int,
    gradient_accumulation_steps: int,
    eval_iters: int,
    name: str = "validation",
) -> Iterator[np.ndarray]:
    """This rank's micro-batches of ``eval_iters`` global batches: the first windows in order, the same every time.

    A shorter split gives the whole global batches that it has, or one in which its windows repeat: which windows are
    read depends on the global batch, not on how ranks and micro-batches divide it. Raises DataError, at the call,
    where there is no window.
    """
    if eval_iters > 0:
        require_window(name, windows)
    global_batch = micro_batch * dp_size * gradient_accumulation_steps
    count = count_held_out(len(windows), eval_iters=eval_iters, global_batch=global_batch)
    blocks = range(dp_rank, count * gradient_accumulation_steps * dp_size, dp_size)
    return (
        windows.batch([(block * micro_batch + place) % len(windows) for place in range(micro_batch)])
        for block in blocks
    )
