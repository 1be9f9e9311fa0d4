"""Blends of datasets as a configuration names them: for training by weight in a random order, held-out ones fixed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from neox_train.data.blend import BlendedWindows, BlendOrder, FixedBlend, document_weights, temper
from neox_train.data.identity import main_path
from neox_train.data.manifest import Manifest, load_manifest
from neox_train.data.order import Order
from neox_train.data.pair_blending import is_pair_blend, open_pair_blend, open_whole_pairs, refuse_labels
from neox_train.data.store import TokenStore
from neox_train.data.windows import Windows, WindowSource
from neox_train.errors import ConfigError

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

_SPLITS = {"valid": "validation", "test": "test"}


def open_train_blend(config: NeoxConfig, tokenizer_sha256: str | None) -> tuple[WindowSource, Order, str]:
    """Windows and order of ``train_data_paths``, and the shares that they realise in words.

    Raises ConfigError where a set has another tokenizer than the training's, if known, or than the first of them.
    """
    paths = [Path(path) for path in config.train_data_paths or ()]
    if is_pair_blend("train_data_paths", paths):
        return open_pair_blend(config, paths)
    refuse_labels("train", config.train_label_data_paths)
    manifests = _load_manifests("train_data_paths", paths, config, tokenizer_sha256)
    sets = [Windows(TokenStore.open(folder, "train"), config.seq_length) for folder in paths]
    weights: list[float] = config.train_data_weights or [float(len(windows)) for windows in sets]
    if config.weight_by_num_documents:
        documents = [manifest.splits["train"].documents for manifest in manifests]
        weights = document_weights(documents, config.weighted_sampler_alpha)
    order = BlendOrder([len(windows) for windows in sets], temper(weights, config.blend_temperature), config.seed)
    return BlendedWindows(sets), order, f"blend of the training samples: {_tell(paths, order.shares)}"


def open_held_out_blend(
    config: NeoxConfig, part: Literal["valid", "test"], tokenizer_sha256: str | None
) -> tuple[WindowSource, str]:
    """Windows of ``valid_data_paths`` or ``test_data_paths`` in a fixed order, and their shares in words.

    .bin/.idx files are read whole. Of a folder the split of that name is taken, or its train split where it has no
    other and is not trained on. Raises ConfigError where there is neither, and where a set has another tokenizer than
    the training's, if known.
    """
    key, named, weights = f"{part}_data_paths", config.valid_data_paths, config.valid_data_weights
    labels = config.valid_label_data_paths
    if part == "test":
        named, weights, labels = config.test_data_paths, config.test_data_weights, config.test_label_data_paths
    paths = [Path(path) for path in named or ()]
    trained_on = {Path(path).resolve() for path in config.train_data_paths or [main_path(config)]}
    told = []
    if is_pair_blend(key, paths):
        sets = open_whole_pairs(config, part, paths, labels)
        weights = weights or [1.0] * len(sets)
        told = [
            f"`{key}`: {path} is trained on too, its loss is not held out"
            for path in paths
            if path.resolve() in trained_on
        ]
    else:
        refuse_labels(part, labels)
        manifests = _load_manifests(key, paths, config, tokenizer_sha256)
        sets = [
            _open_folder(folder, manifest, _SPLITS[part], key, config.seq_length, folder.resolve() in trained_on)
            for folder, manifest in zip(paths, manifests, strict=True)
        ]
    for path, windows, weight in zip(paths, sets, weights or [1.0] * len(sets), strict=True):
        if weight and not len(windows):
            raise ConfigError(
                f"`{key}`: {path} is shorter than one window of `seq_length` {config.seq_length} + 1 "
                "tokens; take it off the list, or set `seq_length` lower"
            )
    blend = FixedBlend(sets, weights or [float(len(windows)) for windows in sets])
    return blend, "\n".join([f"blend of the {_SPLITS[part]} samples: {_tell(paths, blend.shares)}", *told])


def _open_folder(
    folder: Path, manifest: Manifest, split: str, key: str, seq_length: int, is_trained_on: bool
) -> Windows:
    if split not in manifest.splits or not manifest.splits[split].tokens:
        if is_trained_on:
            raise ConfigError(
                f"`{key}`: {folder} has no {split} split, and its train split is trained on; "
                f"tokenize it with `splits.{split}` above 0, or name another dataset"
            )
        split = "train"
    return Windows(TokenStore.open(folder, split), seq_length)


def _load_manifests(
    key: str, folders: Sequence[Path], config: NeoxConfig, tokenizer_sha256: str | None
) -> list[Manifest]:
    manifests = [load_manifest(folder) for folder in folders]
    wanted = tokenizer_sha256 or manifests[0].tokenizer_sha256
    other = main_path(config) if tokenizer_sha256 else folders[0]
    for folder, manifest in zip(folders, manifests, strict=True):
        if manifest.tokenizer_sha256 != wanted:
            raise ConfigError(
                f"`{key}`: {folder} was made with another tokenizer than {other}; "
                "tokenize all datasets of a blend with the same `tokenizer.file`"
            )
    return manifests


def _tell(paths: Sequence[Path], shares: Sequence[float]) -> str:
    return ", ".join(f"{path} {share:.4%}" for path, share in zip(paths, shares, strict=True))
