"""Opening the tokens that a configuration points at, and what of them can be refused before a process starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from neox_train.data.blending import open_held_out_blend, open_train_blend
from neox_train.data.identity import identify_data, main_path
from neox_train.data.loader import require_window
from neox_train.data.manifest import load_manifest
from neox_train.data.mmap_files import MmapTokens
from neox_train.data.neox_order import ItemStream, NeoxOrder, count_tokens, split_items
from neox_train.data.order import Order, SampleOrder
from neox_train.data.pair_blending import check_pair_blend, is_pair_blend
from neox_train.data.pair_files import is_pair
from neox_train.data.store import TokenStore
from neox_train.data.vocabulary import find_pair_tokenizer, find_vocab_size
from neox_train.data.windows import Windows, WindowSource
from neox_train.errors import ConfigError

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig


def require_data(config: NeoxConfig) -> None:
    """Raise the ConfigError or DataError that opening the data in the ranks would raise, without mixing any samples.

    Files are opened and their headers and a sample of ids read; the tokens that no sample met are met while training.
    """
    path = Path(main_path(config))
    for part in ("train", "valid", "test"):
        _require_distinct(f"{part}_data_paths", getattr(config, f"{part}_data_paths") or ())
    tokenizer = find_comparable_tokenizer(config, identify_data(config))
    config = config.with_vocab_size(find_vocab_size(config))
    named = [Path(name) for name in config.train_data_paths or ()]
    if named and is_pair_blend("train_data_paths", named):
        check_pair_blend(config, named)
    elif not named and is_pair(path):
        tokens = MmapTokens.open(path, config.vocab_size)
        count_tokens(tokens, split_items(config.split, len(tokens))["train"])
    else:
        open_train(config, path, tokenizer)
    find_document_end(config, path)
    for name, windows in open_held_out(config, path, tokenizer)[0].items():
        if config.eval_iters:
            require_window(name, windows)


def find_comparable_tokenizer(config: NeoxConfig, digests: dict[str, str]) -> str | None:
    """The tokenizer's digest where it may be compared with a dataset folder's.

    Other tokenizer files than a tokenizer.json cannot be.
    """
    is_comparable = (config.vocab_file or "").endswith(".json") and not config.merge_file
    if not is_pair(Path(main_path(config))) or is_comparable:
        return digests["tokenizer"] or None
    return None


def _require_distinct(key: str, paths: Sequence[str]) -> None:
    """Raise ConfigError where links or dots make two names of one set."""
    seen: dict[Path, str] = {}
    for name in paths:
        other = seen.setdefault(Path(name).resolve(), name)
        if other is not name:
            raise ConfigError(f"`{key}`: {other} and {name} are the same dataset; list it once, with a greater weight")


def open_train(config: NeoxConfig, path: Path, tokenizer_sha256: str | None) -> tuple[WindowSource, Order, str]:
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


def open_held_out(
    config: NeoxConfig, path: Path, tokenizer_sha256: str | None
) -> tuple[dict[str, WindowSource], list[str]]:
    """Windows of ``validation``, and of ``test`` where ``test_data_paths`` names it; blends' shares in words."""
    validation, told = _open_validation(config, path, tokenizer_sha256)
    if config.test_data_paths is None:
        return {"validation": validation}, told
    test, last = open_held_out_blend(config, "test", tokenizer_sha256)
    return {"validation": validation, "test": test}, [*told, last]


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


def find_document_end(config: NeoxConfig, path: Path) -> int | None:
    """The end-of-document token; of .bin/.idx files it is looked up only where a key needs it."""
    if not is_pair(path):
        return load_manifest(path).eod_id
    keys = [name for name in ("eod_mask_loss", "document_attention") if getattr(config, name)]
    if not keys:
        return None
    return find_pair_tokenizer(
        config,
        f"`{keys[0]}: true` needs the end-of-document token, which .bin/.idx files ({path}) do not name",
        "set `vocab_file` to their tokenizer.json",
    ).eod_id
