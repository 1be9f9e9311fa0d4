"""The tokens a configuration points at, as training windows in their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from neox_train.data.identity import identify_data, main_path
from neox_train.data.loader import iterate_batches, tell_short_split, validation_batches
from neox_train.data.opening import find_comparable_tokenizer, find_document_end, open_held_out, open_train
from neox_train.data.order import Order
from neox_train.data.prefetching import prefetch
from neox_train.data.vocabulary import find_vocab_size
from neox_train.data.windows import WindowSource
from neox_train.training.distributed import RankContext

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """Windows of the splits, the order of the first, and what the tokens say of themselves."""

    vocab_size: int
    digests: dict[str, str]
    """What a checkpoint remembers of the data: ``dataset`` and ``tokenizer``."""
    train: WindowSource
    validation: WindowSource
    order: Order
    test: WindowSource | None = None
    """Measured once, at the end of the training; None without ``test_data_paths``."""
    document_end: int | None = None
    """The token that closes a document; None where the data do not say and no key asks."""
    notice: str = ""
    """What a person should read of them, if anything."""

    @classmethod
    def open(cls, config: NeoxConfig) -> TrainingData:
        """Open what ``config`` trains on; raises ConfigError or DataError in one sentence."""
        path = Path(main_path(config))
        digests = identify_data(config)
        tokenizer = find_comparable_tokenizer(config, digests)
        vocab_size = find_vocab_size(config)
        config = config.with_vocab_size(vocab_size)
        train, order, *told = open_train(config, path, tokenizer)
        held_out, more = open_held_out(config, path, tokenizer)
        if config.eval_iters:
            more += [
                tell_short_split(name, len(windows), eval_iters=config.eval_iters, global_batch=config.train_batch_size)
                for name, windows in held_out.items()
            ]
        return cls(
            vocab_size=vocab_size,
            digests=digests,
            train=train,
            validation=held_out["validation"],
            test=held_out.get("test"),
            order=order,
            document_end=find_document_end(config, path),
            notice="\n".join(filter(None, [*told, *more])),
        )

    def train_batches(self, config: NeoxConfig, context: RankContext, consumed_samples: int) -> Iterator[Any]:
        """This rank's micro-batches from the first sample that is not consumed yet, read ahead by a thread.

        For a GPU they are tensors in pinned memory, which it copies from by itself.
        """
        batches = iterate_batches(
            self.train,
            self.order,
            micro_batch=config.train_micro_batch_size_per_gpu,
            dp_rank=context.data_parallel_rank,
            dp_size=config.data_parallel_size,
            gradient_accumulation_steps=config.gradient_accumulation_steps,
            consumed_samples=consumed_samples,
        )
        if context.device.type == "cuda":
            return prefetch(torch.from_numpy(batch).pin_memory() for batch in batches)
        return prefetch(batches)

    def validation_batches(self, config: NeoxConfig, context: RankContext) -> Iterator[np.ndarray]:
        """This rank's micro-batches of ``eval_iters`` global batches: the same windows each time and for any layout.

        Raises DataError at the call where the split is too short.
        """
        return _held_out_batches(self.validation, config, context)

    def test_batches(self, config: NeoxConfig, context: RankContext) -> Iterator[np.ndarray] | None:
        """The same of the test windows; None where there are none."""
        return None if self.test is None else _held_out_batches(self.test, config, context, name="test")


def _held_out_batches(
    windows: WindowSource, config: NeoxConfig, context: RankContext, *, name: str = "validation"
) -> Iterator[np.ndarray]:
    return validation_batches(
        windows,
        micro_batch=config.train_micro_batch_size_per_gpu,
        dp_rank=context.data_parallel_rank,
        dp_size=config.data_parallel_size,
        gradient_accumulation_steps=config.gradient_accumulation_steps,
        eval_iters=config.eval_iters,
        name=name,
    )
