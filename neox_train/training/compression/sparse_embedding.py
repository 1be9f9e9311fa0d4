"""Word embeddings whose gradient has rows of zeros: only the rows that some replica touched travel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.distributed as dist

from neox_train.checkpoint.own_state import SavedOwnState, Tensors
from neox_train.training.compression.seam import average_whole

if TYPE_CHECKING:
    from deepspeed import DeepSpeedEngine

WORTH = 0.9
"""``auto`` sends rows where they are at most this share of the matrix; above it the copies cost more than they save."""


class SparseEmbedding:
    """Averages gradients over ``group`` as the engine does, but of ``embedding`` only rows with a value that is not 0.

    Replicas agree on the rows by one byte a row (a maximum). The rows then travel through the engine's own reduction,
    beside all other gradients: in its format, with its divisions, in the same sum. ``embedding`` may be a rank's part
    of the vocabulary. With ``auto`` the whole matrix travels where most rows are touched.
    """

    def __init__(
        self, engine: DeepSpeedEngine, embedding: torch.nn.Parameter, *, choice: Literal[True, "auto"], group: Any
    ) -> None:
        self._engine: Any = engine
        self._embedding, self._choice, self._group = embedding, choice, group

    @torch.no_grad()
    def reduce(self, gradients: Sequence[torch.Tensor]) -> None:
        """Average in place; rows that no replica touched stay zeros."""
        whole = self._embedding.grad
        assert whole is not None
        touched = whole.ne(0).any(dim=1).to(torch.uint8)
        dist.all_reduce(touched, op=dist.ReduceOp.MAX, group=self._group)
        rows = touched.nonzero().squeeze(1)
        if self._choice == "auto" and len(rows) > WORTH * len(whole):
            average_whole(self._engine, gradients)
            return
        sent = whole.index_select(0, rows)
        place = whole.data_ptr()
        average_whole(self._engine, [sent if gradient.data_ptr() == place else gradient for gradient in gradients])
        whole.index_copy_(0, rows, sent)

    def finish_step(self) -> None:
        """Nothing is left to do."""

    def finish_training(self) -> None:
        """Nothing is left to do."""

    @contextmanager
    def capture(self) -> Iterator[Tensors]:
        """Nothing is kept from step to step."""
        yield {}

    def restore(self, saved: SavedOwnState, rank: int) -> None:
        """Nothing was kept."""
