"""Blends of .bin/.idx files as a configuration names them, in the order in which GPT-NeoX draws their samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from neox_train.data.blend import BlendedWindows, document_weights, temper
from neox_train.data.labels import LabelledTokens, open_items
from neox_train.data.mmap_files import MmapTokens
from neox_train.data.neox_blend import NeoxBlendOrder, count_samples, normalise_weights
from neox_train.data.neox_order import ItemStream, NeoxOrder, count_tokens
from neox_train.data.order import Order
from neox_train.data.pair_files import is_pair
from neox_train.data.windows import Windows, WindowSource
from neox_train.errors import ConfigError

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig


def is_pair_blend(key: str, paths: Sequence[Path]) -> bool:
    """Whether ``paths`` are .bin/.idx files; raises ConfigError where some are and others are not."""
    pairs = [path for path in paths if is_pair(path)]
    if pairs and len(pairs) < len(paths):
        other = next(path for path in paths if path not in pairs)
        raise ConfigError(
            f"`{key}`: {pairs[0]} names .bin/.idx files and {other} does not; a blend is of one kind, "
            "`neox-train data import` makes dataset folders of such files"
        )
    return bool(pairs)


def open_pair_blend(config: NeoxConfig, prefixes: Sequence[Path]) -> tuple[WindowSource, Order, str]:
    """Windows and order of ``train_data_paths`` and the shares that they realise in words.

    As in GPT-NeoX every pair is trained on whole, ``split`` is not read, and without weights all weigh the same.
    """
    pairs = _open_labelled("train", prefixes, config.train_label_data_paths, config.vocab_size)
    num_samples = (config.train_iters or 0) * config.train_batch_size
    weights = normalise_weights(_choose_weights(config, pairs))
    orders = [
        NeoxOrder(pair, range(len(pair)), num_samples=wanted, seq_length=config.seq_length, seed=config.seed)
        for pair, wanted in zip(pairs, count_samples(weights, num_samples), strict=True)
    ]
    order = NeoxBlendOrder(orders, weights)
    windows = BlendedWindows([Windows(one.stream, config.seq_length) for one in orders])
    shares = ", ".join(f"{prefix} {weight:.4%}" for prefix, weight in zip(prefixes, weights, strict=True))
    return windows, order, f"blend of the training samples in GPT-NeoX's order: {shares}"


def check_pair_blend(config: NeoxConfig, prefixes: Sequence[Path]) -> None:
    """Raise what ``open_pair_blend`` raises, without mixing the samples."""
    for pair in _open_labelled("train", prefixes, config.train_label_data_paths, config.vocab_size):
        count_tokens(pair, range(len(pair)))


def open_whole_pairs(
    config: NeoxConfig, part: str, prefixes: Sequence[Path], labels: list[str] | None
) -> list[Windows]:
    """All windows of each pair of ``{part}_data_paths``, its items in the order of the file."""
    pairs = _open_labelled(part, prefixes, labels, config.vocab_size)
    return [Windows(ItemStream(pair, np.arange(len(pair))), config.seq_length) for pair in pairs]


def refuse_labels(part: str, labels: list[str] | None) -> None:
    """Raise ConfigError where dataset folders are to have label files."""
    if labels is not None:
        raise ConfigError(
            f"`{part}_label_data_paths` is set, and `{part}_data_paths` names dataset folders, which have no labels; "
            "name .bin/.idx files in both, or remove the labels"
        )


def _open_labelled(
    part: str, prefixes: Sequence[Path], labels: list[str] | None, vocab_size: int | None
) -> list[MmapTokens | LabelledTokens]:
    for label in labels or ():
        if not is_pair(Path(label)):
            raise ConfigError(f"`{part}_label_data_paths`: {label} is no pair of .bin/.idx files; correct the path")
    beside = [None] * len(prefixes) if labels is None else [Path(label) for label in labels]
    return [open_items(prefix, label, vocab_size) for prefix, label in zip(prefixes, beside, strict=True)]


def _choose_weights(config: NeoxConfig, pairs: Sequence[MmapTokens | LabelledTokens]) -> list[float]:
    weights = config.train_data_weights or [1.0] * len(pairs)
    if config.weight_by_num_documents:
        weights = document_weights([len(pair) for pair in pairs], config.weighted_sampler_alpha)
    return weights if config.blend_temperature == 1 else temper(weights, config.blend_temperature)
