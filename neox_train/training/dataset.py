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
from neox_train.data.manifest import load_manifest
from neox_train.data.mmap_files import MmapTokens
from neox_train.data.neox_order import ItemStream, NeoxOrder, split_items
from neox_train.data.order import Order, SampleOrder
from neox_train.data.pair_files import is_pair
from neox_train.data.prefetching import prefetch
from neox_train.data.store import TokenStore
from neox_train.data.vocabulary import find_pair_tokenizer, find_vocab_size
from neox_train.data.windows import Windows, WindowSource
from neox_train.errors import ConfigError
from neox_train.training.blending import open_held_out_blend, open_train_blend
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
        manifest = None if is_pair(path) else load_manifest(path)
        # Other tokenizer files than a tokenizer.json cannot be compared with a dataset folder's.
        is_comparable = manifest is not None or ((config.vocab_file or "").endswith(".json") and not config.merge_file)
        tokenizer = (digests["tokenizer"] or None) if is_comparable else None
        vocab_size = find_vocab_size(config)
        config = config.with_vocab_size(vocab_size)
        train, order, *told = _open_train(config, path, tokenizer)
        validation, more = _open_validation(config, path, tokenizer)
        test = None
        if config.test_data_paths is not None:
            test, last = open_held_out_blend(config, "test", tokenizer)
            more = [*more, last]
        return cls(
            vocab_size=vocab_size,
            digests=digests,
            train=train,
            validation=validation,
            test=test,
            order=order,
            document_end=manifest.eod_id if manifest else _find_document_end(config, path),
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
        batches=config.eval_iters * config.gradient_accumulation_steps,
        name=name,
    )


def _open_train(config: NeoxConfig, path: Path, tokenizer_sha256: str | None) -> tuple[WindowSource, Order, str]:
    """Windows and order of the training's samples, and a blend's realised shares."""
    if config.train_data_paths is not None:
        return open_train_blend(config, tokenizer_sha256)
    if is_pair(path):
        tokens = MmapTokens.open(path, config.vocab_size)
        order = NeoxOrder(
            tokens,
            split_items(config.split, len(tokens))["train"],
            num_samples=(config.train_iters or 0) * config.train_batch_size,
            seq_length=config.seq_length,
            seed=config.seed,
        )
        return Windows(order.stream, config.seq_length), order, ""
    windows = Windows(TokenStore.open(path, "train"), config.seq_length)
    return windows, SampleOrder(len(windows), config.seed), ""


def _open_validation(config: NeoxConfig, path: Path, tokenizer_sha256: str | None) -> tuple[WindowSource, list[str]]:
    """Windows of the validation in their order, and a blend's shares in words."""
    if config.valid_data_paths is not None:
        blend, told = open_held_out_blend(config, "valid", tokenizer_sha256)
        return blend, [told]
    if not is_pair(path):
        return Windows(TokenStore.open(path, "validation"), config.seq_length), []
    tokens = MmapTokens.open(path, config.vocab_size)
    items = split_items(config.split, len(tokens))["validation"]
    if not config.data_path:
        # As in GPT-NeoX the pairs of a blend have no splits; they are trained on whole.
        if config.eval_iters:
            raise ConfigError(
                f"`train_data_paths` {path} names .bin/.idx files, which are trained on whole, and nothing is left to "
                "validate on; set `valid_data_paths`, or `eval_iters: 0`"
            )
        items = range(0)
    return Windows(ItemStream(tokens, np.arange(items.start, items.stop)), config.seq_length), []


def _find_document_end(config: NeoxConfig, prefix: Path) -> int | None:
    """The end-of-document token of .bin/.idx files, looked up only where a key needs it."""
    keys = [name for name in ("eod_mask_loss", "document_attention") if getattr(config, name)]
    if not keys:
        return None
    return find_pair_tokenizer(
        config,
        f"`{keys[0]}: true` needs the end-of-document token, which .bin/.idx files ({prefix}) do not name",
        "set `vocab_file` to their tokenizer.json",
    ).eod_id
