"""Rules of the keys that blend datasets."""

from __future__ import annotations

from neox_train.config.conflict import ConflictError
from neox_train.config.schema import NeoxKeys


def check_blend(keys: NeoxKeys) -> None:
    """Raise ConflictError where the keys of a blend contradict each other or have no blend to act on."""
    paths, weights = keys.train_data_paths, keys.train_data_weights
    if paths is None:
        for name, is_set in (
            ("train_data_weights", weights is not None),
            ("weight_by_num_documents", keys.weight_by_num_documents),
            ("blend_temperature", keys.blend_temperature != 1),
        ):
            if is_set:
                raise ConflictError(f"{name} is set without train_data_paths; name the datasets to blend", name)
        return
    if not paths or len(set(paths)) < len(paths):
        raise ConflictError(
            "train_data_paths is empty or names a dataset twice; list each dataset once", "train_data_paths"
        )
    if weights is None:
        return
    if keys.weight_by_num_documents:
        raise ConflictError(
            "train_data_weights and weight_by_num_documents both set the weights; remove one of them",
            "weight_by_num_documents",
            "train_data_weights",
        )
    if len(weights) != len(paths):
        raise ConflictError(
            f"train_data_weights has {len(weights)} numbers for {len(paths)} train_data_paths; give one for each",
            "train_data_weights",
            "train_data_paths",
        )
    if min(weights) < 0 or sum(weights) <= 0:
        raise ConflictError(
            f"train_data_weights is {weights}; numbers of 0 or more with a sum above 0 are wanted", "train_data_weights"
        )
