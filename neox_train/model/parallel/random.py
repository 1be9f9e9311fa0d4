"""Random streams of tensor-parallel ranks.

Ranks of a tensor group share their random stream, so that what they hold alike is dropped out alike. Where each has a
part of its own, it draws from a stream that starts at a number drawn from the shared one: nothing has to be kept, the
shared streams stay together, and recomputed activations draw the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def own_random_stream(rank: int) -> Iterator[None]:
    """Draw from this rank's own stream inside the block."""
    start = int(torch.randint(2**31 - 1, ()))
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(start + rank)
        yield
