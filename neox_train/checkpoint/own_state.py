"""State of one rank that no other rank holds, such as what a gradient compression has not sent yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from neox_train.checkpoint.rank_file import name_rank_file
from neox_train.checkpoint.tensor_reader import TensorReader

_PREFIX = "own:"
_ATTRIBUTE = "own_state"

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class SavedOwnState:
    """The own states in a checkpoint of ``ranks`` ranks; without a reader those of a training that only begins."""

    reader: TensorReader | None
    ranks: int

    def read(self, rank: int) -> Tensors:
        """What ``rank`` had captured; empty where the training had no such state."""
        if self.reader is None:
            return {}
        file = name_rank_file(rank)
        keys = [key for key in self.reader.keys(file) if key.startswith(_PREFIX)]
        return {key.removeprefix(_PREFIX): self.reader.read(file, key) for key in keys}


class OwnState(Protocol):
    """What has such state."""

    def capture(self) -> AbstractContextManager[Tensors]:
        """The tensors to save; within the block the master weights are those that every rank holds alike."""

    def restore(self, saved: SavedOwnState, rank: int) -> None:
        """Go on as ``rank`` from what was captured; the engine holds the checkpoint's weights already."""


def set_own_state(engine: Any, state: OwnState) -> None:
    """Make ``state`` a part of the engine's checkpoints."""
    setattr(engine, _ATTRIBUTE, state)


def find_own_state(engine: Any) -> OwnState | None:
    """What ``set_own_state`` was given."""
    return getattr(engine, _ATTRIBUTE, None)


@contextmanager
def capture_own_state(engine: Any) -> Iterator[Tensors]:
    """The engine's own state under the names of a rank's file."""
    state = find_own_state(engine)
    if state is None:
        yield {}
        return
    with state.capture() as tensors:
        yield {_PREFIX + name: tensor for name, tensor in tensors.items()}
