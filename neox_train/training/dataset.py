"""The tokens a configuration points at, as training windows in their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from neox_train.data.blend import BlendedWindows, BlendOrder, document_weights, temper
from neox_train.data.identity import identify_data, main_path
from neox_train.data.loader import iterate_batches, validation_batches
from neox_train.data.manifest import Manifest, load_manifest
from neox_train.data.mmap_files import MmapTokens
from neox_train.data.neox_order import ItemStream, NeoxOrder, split_items
from neox_train.data.order import Order, SampleOrder
from neox_train.data.pair_files import is_pair
from neox_train.data.prefetching import prefetch
from neox_train.data.store import TokenStore
from neox_train.data.tokenizer import load_tokenizer
from neox_train.data.windows import Windows, WindowSource
from neox_train.errors import ConfigError
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
        validation = Windows(TokenStore.open(path, "validation"), config.seq_length)
        train, order, notice = _open_train(config, path, manifest)
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
        validation = ItemStream(tokens, np.arange(items["validation"].start, items["validation"].stop))
        return cls(
            vocab_size=_find_vocabulary(config, prefix),
            digests=identify_data(config),
            train=Windows(order.stream, config.seq_length),
            validation=Windows(validation, config.seq_length),
            order=order,
            document_end=_find_document_end(config, prefix),
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
        return _open_blend(config, main)
    windows = Windows(TokenStore.open(path, "train"), config.seq_length)
    return windows, SampleOrder(len(windows), config.seed), ""


def _open_blend(config: NeoxConfig, main: Manifest) -> tuple[WindowSource, Order, str]:
    """The same of ``train_data_paths``; raises ConfigError where a tokenizer is another."""
    folders = [Path(path) for path in config.train_data_paths or ()]
    manifests = [load_manifest(folder) for folder in folders]
    for folder, manifest in zip(folders, manifests, strict=True):
        if manifest.tokenizer_sha256 != main.tokenizer_sha256:
            raise ConfigError(
                f"`train_data_paths`: {folder} was made with another tokenizer than {main_path(config)}; "
                "tokenize all datasets of a blend with the same `tokenizer.file`"
            )
    sets = [Windows(TokenStore.open(folder, "train"), config.seq_length) for folder in folders]
    weights: list[float] = config.train_data_weights or [float(len(windows)) for windows in sets]
    if config.weight_by_num_documents:
        documents = [manifest.splits["train"].documents for manifest in manifests]
        weights = document_weights(documents, config.weighted_sampler_alpha)
    order = BlendOrder([len(windows) for windows in sets], temper(weights, config.blend_temperature), config.seed)
    shares = ", ".join(f"{folder} {share:.4%}" for folder, share in zip(folders, order.shares, strict=True))
    return BlendedWindows(sets), order, f"blend of the training samples: {shares}"


def _find_vocabulary(config: NeoxConfig, prefix: Path) -> int:
    if config.vocab_size is not None:
        return config.vocab_size
    if config.vocab_file and config.vocab_file.endswith(".json"):
        return load_tokenizer(Path(config.vocab_file)).vocab_size
    raise ConfigError(
        f"`data_path` {prefix} names .bin/.idx files, which do not say how many token ids there are; "
        "set `vocab_file` to their tokenizer.json, or `vocab_size`"
    )


def _find_document_end(config: NeoxConfig, prefix: Path) -> int | None:
    """The end-of-document token of .bin/.idx files, looked up only where a key needs it."""
    keys = [name for name in ("eod_mask_loss", "document_attention") if getattr(config, name)]
    if not keys:
        return None
    if config.vocab_file and config.vocab_file.endswith(".json"):
        return load_tokenizer(Path(config.vocab_file)).eod_id
    raise ConfigError(
        f"`{keys[0]}: true` needs the end-of-document token, which the .bin/.idx files of `data_path` {prefix} do not "
        "name; set `vocab_file` to their tokenizer.json"
    )
