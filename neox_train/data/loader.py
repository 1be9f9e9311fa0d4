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


def validation_batches(
    windows: WindowSource, *, micro_batch: int, dp_rank: int, dp_size: int, batches: int, name: str = "validation"
) -> Iterator[np.ndarray]:
    """This rank's part of the first ``batches * dp_size * micro_batch`` windows, in order, the same every time.

    Every rank gets the same number of batches: fewer than ``batches`` where the split is shorter, so that no
    window counts twice. Raises DataError, at the call, when not even one batch a rank is there.
    """
    available = len(windows) // (micro_batch * dp_size)
    if batches > 0 and available == 0:
        raise DataError(
            f"the {name} split has {len(windows)} windows of {windows.seq_length} tokens, one batch needs "
            f"{micro_batch * dp_size} (micro-batch {micro_batch} x {dp_size} data-parallel ranks); "
            f"give `splits.{name}` (of .bin/.idx files: `split`) a larger share, or set `seq_length` or the "
            "micro-batch lower"
        )
    firsts = ((batch * dp_size + dp_rank) * micro_batch for batch in range(min(batches, available)))
    return (windows.batch(range(first, first + micro_batch)) for first in firsts)
