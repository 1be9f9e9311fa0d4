"""How wide the tuned model was, by either of two keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from neox_train.config.architecture import Architecture
from tests.config.files import load_tiny, refuse_tiny

SHAPES = """
embedding.word_embeddings.weight: [null, 16]
transformer.0.attention.dense.weight: [16, 16]
"""


def test_the_file_of_the_mup_package_tells_the_width(tmp_path: Path) -> None:
    file = tmp_path / "base.bsh"
    file.write_text(SHAPES)
    config = load_tiny(use_mup=True, base_shapes_file=str(file)).with_vocab_size(90)
    assert config.mup_base_hidden_size == 16
    assert Architecture.from_config(config).mup_width == config.hidden_size / 16


def test_the_file_of_rank_0_is_found_by_the_name_without_the_rank(tmp_path: Path) -> None:
    (tmp_path / "base.bsh.0").write_text(SHAPES)
    assert load_tiny(use_mup=True, base_shapes_file=str(tmp_path / "base.bsh")).mup_base_hidden_size == 16
    (tmp_path / "base.bsh").write_text(SHAPES.replace("16", "32"))
    assert load_tiny(use_mup=True, base_shapes_file=str(tmp_path / "base.bsh")).mup_base_hidden_size == 32


def test_without_use_mup_nothing_is_read(tmp_path: Path) -> None:
    config = load_tiny(base_shapes_file=str(tmp_path / "none"), mup_embedding_mult=3.0).with_vocab_size(90)
    architecture = Architecture.from_config(config)
    assert (architecture.mup_width, architecture.mup_embedding_multiplier) == (None, 1.0)


@pytest.mark.parametrize("text", ["", "- 1", "output.weight: [null, 16]", "word_embeddings.weight: [16, null]", "a: ["])
def test_a_file_that_does_not_tell_it_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "base.bsh"
    file.write_text(text)
    assert f"base_shapes_file {file}" in refuse_tiny(use_mup=True, base_shapes_file=str(file))


def test_the_width_is_wanted_and_wants_the_switch() -> None:
    assert "set mup_base_hidden_size" in refuse_tiny(use_mup=True)
    assert "set use_mup: true" in refuse_tiny(mup_base_hidden_size=16)
    assert "base_shapes_file none cannot be read" in refuse_tiny(use_mup=True, base_shapes_file="none")
