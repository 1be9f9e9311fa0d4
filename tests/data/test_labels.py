"""Label files beside token files."""

from __future__ import annotations

import numpy as np
import pytest

from neox_train.data.labels import open_items
from neox_train.data.mmap_files import MmapTokens
from neox_train.data.neox_order import ItemStream
from neox_train.errors import DataError
from tests.data.pairs import write_pair

TOKENS = [[5, 6, 7, 8], [9, 0], [1, 2, 3]]


def test_tokens_whose_label_is_below_0_are_marked(tmp_path) -> None:
    tokens = write_pair(tmp_path / "text", TOKENS)
    labels = write_pair(tmp_path / "labels", [[-100, -100, 7, 8], [-100, 0], [1, 2, -1]])
    stream = ItemStream(open_items(tokens, labels), np.array([2, 0, 1]))
    assert stream.read(0, 9).tolist() == [1, 2, ~3, ~5, ~6, 7, 8, ~9, 0]
    assert stream.read(2, 5).tolist() == [~3, ~5, ~6]
    assert isinstance(open_items(tokens, None), MmapTokens)


def test_labels_of_another_text_are_refused(tmp_path) -> None:
    tokens = write_pair(tmp_path / "text", TOKENS)
    shorter = write_pair(tmp_path / "shorter", [[5, 6, 7], [9, 0], [1, 2, 3]])
    with pytest.raises(DataError, match=r"shorter has 3 items of 8 labels, .*text 3 of 9 tokens"):
        open_items(tokens, shorter)
    other = write_pair(tmp_path / "other", [[5, 6, 7, 8], [9, 4], [1, 2, 3]])
    with pytest.raises(DataError, match=r"other: item 1 has at place 1 the label 4 beside token 0"):
        open_items(tokens, other).part(1, 0, 2)
