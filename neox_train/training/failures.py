"""Errors of the stack below that a person can act on, as one sentence each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from neox_train.errors import PeerLostError, TrainingError
from neox_train.training.distributed import RankContext

_LOST_PEER = ("connection closed by peer", "connection reset by peer", "socket closed", "broken pipe", "timed out")
_COMMUNICATION = ("gloo", "nccl", "store", "processgroup")


@contextmanager
def explain_failures(context: RankContext) -> Iterator[None]:
    """Turn a lost peer (PeerLostError) and a full GPU (TrainingError) into sentences; other errors stay as they are."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise TrainingError(
            f"rank {context.rank}: the GPU's memory is full ({_first_line(error)}); set "
            "`train_micro_batch_size_per_gpu` lower (and `gradient_accumulation_steps` higher), "
            "`checkpoint_activations: true`, or a higher `zero_optimization.stage`"
        ) from error
    except RuntimeError as error:
        if not is_lost_peer(error):
            raise
        raise PeerLostError(
            f"rank {context.rank}: another rank is gone ({_first_line(error)}); the log of the rank that ended first "
            "says why, and the same command continues from the newest checkpoint"
        ) from error


def is_lost_peer(error: RuntimeError) -> bool:
    """Whether an error of torch.distributed says that a peer is gone or silent."""
    if isinstance(error, torch.distributed.DistError):
        return True
    text = str(error).lower()
    return any(phrase in text for phrase in _LOST_PEER) and any(word in text for word in _COMMUNICATION)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
