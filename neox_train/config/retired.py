"""Names that GPT-NeoX once had, or documents without reading them, and what to write today."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retired:
    """A name without effect in GPT-NeoX today: ``sentence`` says what to write."""

    sentence: str
    today: str | None = None
    """Key that takes the value over unchanged; None where the value must be written anew."""


def _renamed(key: str) -> Retired:
    return Retired(f"is a retired name; write {key} instead")


def _never_read(key: str) -> Retired:
    return Retired(f"is described but not read by GPT-NeoX; write {key} instead")


RETIRED: dict[str, Retired] = {
    "gas": Retired(
        "is the retired name of gradient_accumulation_steps and is read as that", "gradient_accumulation_steps"
    ),
    "clip_grad": Retired(
        "is overwritten by gradient_clipping in GPT-NeoX and is read as gradient_clipping", "gradient_clipping"
    ),
    "save_interval": _renamed("checkpoint_factor"),
    "mlp_type": Retired(
        "is a retired name; remove it where it was regular, and for llama write activation: swiglu with "
        "mlp_multiple_of: 256 and intermediate_size: 8 x hidden_size, which give the same width"
    ),
    "train_data_path": _never_read("data_path, or train_data_paths (a list)"),
    "valid_data_path": _never_read("data_path, or valid_data_paths (a list)"),
    "test_data_path": _never_read("data_path, or test_data_paths (a list)"),
    "label_data_paths": _never_read("train_label_data_paths, valid_label_data_paths and test_label_data_paths"),
    "zero_allow_untested_optimizer": Retired("is no key of GPT-NeoX and is always on here; remove it"),
}
"""By name, hyphens folded to underscores."""
