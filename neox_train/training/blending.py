"""Blends of datasets as a configuration names them: for training by weight in a random order, for validation fixed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from neox_train.data.blend import BlendedWindows, BlendOrder, FixedBlend, document_weights, temper
from neox_train.data.identity import main_path
from neox_train.data.manifest import Manifest, load_manifest
from neox_train.data.order import Order
from neox_train.data.store import TokenStore
from neox_train.data.windows import Windows, WindowSource
from neox_train.errors import ConfigError

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig


def open_train_blend(config: NeoxConfig, main: Manifest) -> tuple[WindowSource, Order, str]:
    """Windows and order of ``train_data_paths``, and the shares that they realise in words.

    Raises ConfigError where a set has another tokenizer than ``main``.
    """
    folders = [Path(path) for path in config.train_data_paths or ()]
    manifests = _load_manifests("train_data_paths", folders, config, main.tokenizer_sha256)
    sets = [Windows(TokenStore.open(folder, "train"), config.seq_length) for folder in folders]
    weights: list[float] = config.train_data_weights or [float(len(windows)) for windows in sets]
    if config.weight_by_num_documents:
        documents = [manifest.splits["train"].documents for manifest in manifests]
        weights = document_weights(documents, config.weighted_sampler_alpha)
    order = BlendOrder([len(windows) for windows in sets], temper(weights, config.blend_temperature), config.seed)
    return BlendedWindows(sets), order, f"blend of the training samples: {_tell(folders, order.shares)}"


def open_validation_blend(config: NeoxConfig, tokenizer_sha256: str | None) -> tuple[WindowSource, str]:
    """Windows of ``valid_data_paths`` in a fixed order, and their shares in words.

    A folder's validation split is taken, or its train split where it has no other and is not trained on.
    Raises ConfigError where there is neither, and where a set has another tokenizer than the training's, if known.
    """
    folders = [Path(path) for path in config.valid_data_paths or ()]
    manifests = _load_manifests("valid_data_paths", folders, config, tokenizer_sha256)
    trained_on = {Path(path).resolve() for path in config.train_data_paths or [main_path(config)]}
    sets = []
    for folder, manifest in zip(folders, manifests, strict=True):
        split = "validation"
        if split not in manifest.splits or not manifest.splits[split].tokens:
            if folder.resolve() in trained_on:
                raise ConfigError(
                    f"`valid_data_paths`: {folder} has no validation split, and its train split is trained on; "
                    "tokenize it with `splits.validation` above 0, or name another dataset"
                )
            split = "train"
        sets.append(Windows(TokenStore.open(folder, split), config.seq_length))
    weights = config.valid_data_weights or [float(len(windows)) for windows in sets]
    for folder, windows, weight in zip(folders, sets, weights, strict=True):
        if not len(windows) and (weight or not config.valid_data_weights):
            raise ConfigError(
                f"`valid_data_paths`: {folder} is shorter than one window of `seq_length` {config.seq_length} + 1 "
                "tokens; take it off the list, or set `seq_length` lower"
            )
    blend = FixedBlend(sets, weights)
    return blend, f"blend of the validation samples: {_tell(folders, blend.shares)}"


def _load_manifests(
    key: str, folders: Sequence[Path], config: NeoxConfig, tokenizer_sha256: str | None
) -> list[Manifest]:
    manifests = [load_manifest(folder) for folder in folders]
    for folder, manifest in zip(folders, manifests, strict=True):
        if tokenizer_sha256 is not None and manifest.tokenizer_sha256 != tokenizer_sha256:
            raise ConfigError(
                f"`{key}`: {folder} was made with another tokenizer than {main_path(config)}; "
                "tokenize all datasets of a blend with the same `tokenizer.file`"
            )
    return manifests


def _tell(folders: Sequence[Path], shares: Sequence[float]) -> str:
    return ", ".join(f"{folder} {share:.4%}" for folder, share in zip(folders, shares, strict=True))
