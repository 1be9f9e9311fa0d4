"""The tokens a configuration points at, as training windows in their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from neox_train.data.identity import identify_data, main_path
from neox_train.data.loader import iterate_batches, validation_batches
from neox_train.data.manifest import Manifest, load_manifest
from neox_train.data.mmap_files import MmapTokens
from neox_train.data.neox_order import ItemStream, NeoxOrder, split_items
from neox_train.data.order import Order, SampleOrder
from neox_train.data.pair_files import is_pair
from neox_train.data.prefetching import prefetch
from neox_train.data.store import TokenStore
from neox_train.data.vocabulary import find_vocab_size, load_pair_tokenizer
from neox_train.data.windows import Windows, WindowSource
from neox_train.errors import ConfigError
from neox_train.training.blending import open_train_blend, open_validation_blend
from neox_train.training.distributed import RankContext

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """Windows of both splits, the order of the first, and what the tokens say of themselves."""

    vocab_size: int
    digests: dict[str, str]
    """What a checkpoint remembers of the data: ``dataset`` and ``tokenizer``."""
    train: WindowSource
    validation: WindowSource
    order: Order
    document_end: int | None = None
    """The token that closes a document; None where the data do not say and no key asks."""
    notice: str = ""
    """What a person should read of them, if anything."""

    @classmethod
    def open(cls, config: NeoxConfig) -> TrainingData:
        """Open what ``config`` trains on; raises ConfigError or DataError in one sentence."""
        path = Path(main_path(config))
        if is_pair(path):
            return cls._open_pair(config, path)
        manifest = load_manifest(path)
        train, order, notice = _open_train(config, path, manifest)
        validation: WindowSource
        if config.valid_data_paths is not None:
            validation, more = open_validation_blend(config, manifest.tokenizer_sha256)
            notice = "\n".join(filter(None, [notice, more]))
        else:
            validation = Windows(TokenStore.open(path, "validation"), config.seq_length)
        return cls(
            vocab_size=manifest.vocab_size,
            digests=identify_data(config),
            train=train,
            validation=validation,
            order=order,
            document_end=manifest.eod_id,
            notice=notice,
        )

    @classmethod
    def _open_pair(cls, config: NeoxConfig, prefix: Path) -> TrainingData:
        """.bin/.idx files in GPT-NeoX's order; the validation windows are the split's, unshuffled."""
        if config.train_data_paths is not None:
            raise ConfigError(f"`data_path` {prefix} names .bin/.idx files, a blend takes dataset folders; import them")
        tokens = MmapTokens.open(prefix)
        items = split_items(config.split, len(tokens))
        order = NeoxOrder(
            tokens,
            items["train"],
            num_samples=(config.train_iters or 0) * config.train_batch_size,
            seq_length=config.seq_length,
            seed=config.seed,
        )
        validation: WindowSource
        notice = ""
        digests = identify_data(config)
        if config.valid_data_paths is not None:
            validation, notice = open_validation_blend(config, digests["tokenizer"] or None)
        else:
            own = ItemStream(tokens, np.arange(items["validation"].start, items["validation"].stop))
            validation = Windows(own, config.seq_length)
        return cls(
            vocab_size=find_vocab_size(config),
            digests=digests,
            train=Windows(order.stream, config.seq_length),
            validation=validation,
            order=order,
            document_end=_find_document_end(config, prefix),
            notice=notice,
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
        return validation_batches(
            self.validation,
            micro_batch=config.train_micro_batch_size_per_gpu,
            dp_rank=context.data_parallel_rank,
            dp_size=config.data_parallel_size,
            batches=config.eval_iters * config.gradient_accumulation_steps,
        )


def _open_train(config: NeoxConfig, path: Path, main: Manifest) -> tuple[WindowSource, Order, str]:
    """Windows and order of the training split, and a blend's realised shares."""
    if config.train_data_paths is not None:
        return open_train_blend(config, main)
    windows = Windows(TokenStore.open(path, "train"), config.seq_length)
    return windows, SampleOrder(len(windows), config.seed), ""


def _find_document_end(config: NeoxConfig, prefix: Path) -> int | None:
    """The end-of-document token of .bin/.idx files, looked up only where a key needs it."""
    keys = [name for name in ("eod_mask_loss", "document_attention") if getattr(config, name)]
    if not keys:
        return None
    return load_pair_tokenizer(
        config,
        f"`{keys[0]}: true` needs the end-of-document token, which .bin/.idx files ({prefix}) do not name",
        "set `vocab_file` to their tokenizer.json",
    ).eod_id
