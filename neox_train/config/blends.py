"""Rules of the keys that blend datasets."""

from __future__ import annotations

from collections.abc import Sized
from os.path import normpath

from neox_train.config.conflict import ConflictError
from neox_train.config.schema import NeoxKeys


def check_blend(keys: NeoxKeys) -> None:
    """Raise ConflictError where the keys of a blend contradict each other or have no blend to act on."""
    if keys.train_data_paths is None:
        for name, is_set in (
            ("weight_by_num_documents", keys.weight_by_num_documents),
            ("blend_temperature", keys.blend_temperature != 1),
        ):
            if is_set:
                raise ConflictError(f"{name} is set without train_data_paths; name the datasets to blend", name)
    if keys.train_data_weights is not None and keys.weight_by_num_documents:
        raise ConflictError(
            "train_data_weights and weight_by_num_documents both set the weights; remove one of them",
            "weight_by_num_documents",
            "train_data_weights",
        )
    _check_sets("train", keys.train_data_paths, keys.train_data_weights)
    _check_sets("valid", keys.valid_data_paths, keys.valid_data_weights)
    _check_sets("test", keys.test_data_paths, keys.test_data_weights)
    _check_labels("train", keys.train_data_paths, keys.train_label_data_paths)
    _check_labels("valid", keys.valid_data_paths, keys.valid_label_data_paths)
    _check_labels("test", keys.test_data_paths, keys.test_label_data_paths)


def _check_labels(part: str, paths: list[str] | None, labels: list[str] | None) -> None:
    _require_one_each(
        f"{part}_label_data_paths",
        labels,
        f"{part}_data_paths",
        paths,
        "entries",
        "name the .bin/.idx files they belong to",
    )


def _check_sets(part: str, paths: list[str] | None, weights: list[float] | None) -> None:
    paths_key, weights_key = f"{part}_data_paths", f"{part}_data_weights"
    if paths is not None and (not paths or len(set(map(normpath, paths))) < len(paths)):
        raise ConflictError(f"{paths_key} is empty or names a dataset twice; list each dataset once", paths_key)
    _require_one_each(weights_key, weights, paths_key, paths, "numbers", "name the datasets to blend")
    if weights is not None and (min(weights) < 0 or sum(weights) <= 0):
        raise ConflictError(
            f"{weights_key} is {weights}; numbers of 0 or more with a sum above 0 are wanted", weights_key
        )


def _require_one_each(
    key: str, values: Sized | None, paths_key: str, paths: list[str] | None, noun: str, remedy: str
) -> None:
    """A list beside ``paths`` has one value for each of them."""
    if values is None:
        return
    if paths is None:
        raise ConflictError(f"{key} is set without {paths_key}; {remedy}", key)
    if len(values) != len(paths):
        raise ConflictError(
            f"{key} has {len(values)} {noun} for {len(paths)} {paths_key}; give one for each", key, paths_key
        )
