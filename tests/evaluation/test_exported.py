"""Exported folders: the digest follows the contents, an incomplete folder is one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from neox_train.errors import UserError
from neox_train.evaluation.exported import export_digest, load_exported_model


def test_the_digest_follows_the_weights(export: Callable[..., Path], tmp_path: Path):
    same = [export_digest(export(tmp_path / name)) for name in ("a", "b")]
    assert same[0] == same[1]
    assert export_digest(export(tmp_path / "c", seed=2)) != same[0]


def test_a_folder_without_a_model_names_the_command(tmp_path: Path):
    with pytest.raises(UserError, match="neox-train convert"):
        export_digest(tmp_path)


def test_a_damaged_export_is_one_sentence(export: Callable[..., Path], tmp_path: Path):
    folder = export(tmp_path / "hf")
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"cannot be loaded by transformers .* run `neox-train convert` again"):
        load_exported_model(folder)
