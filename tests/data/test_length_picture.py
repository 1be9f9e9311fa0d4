import numpy as np
import pytest

from neox_train.data.length_picture import count_tokens_by_length, draw_lengths
from neox_train.errors import DataError, StorageError


def test_every_token_counts_at_its_documents_length():
    powers, shares = count_tokens_by_length(np.cumsum([0, 1, 2, 3, 4, 7, 8]))
    assert powers.tolist() == [0, 1, 2, 3] and shares.tolist() == pytest.approx([4, 20, 44, 32])


def test_only_a_dataset_is_drawn(tmp_path):
    with pytest.raises(DataError, match="not a finished dataset"):
        draw_lengths(tmp_path, tmp_path / "lengths.png")


def test_a_picture_that_cannot_be_written_is_one_sentence(tmp_path, make_spec, build, folder):
    (tmp_path / "a.txt").write_text("text")
    build(make_spec(tmp_path / "a.txt"))
    (tmp_path / "taken.png").mkdir()
    with pytest.raises(StorageError, match="is a folder"):
        draw_lengths(folder.path, tmp_path / "taken.png")
