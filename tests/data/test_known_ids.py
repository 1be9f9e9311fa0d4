from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from neox_train.data.known_ids import require_known_ids
from neox_train.data.labels import open_items
from neox_train.data.mmap_files import MmapTokens
from neox_train.data.neox_order import ItemStream
from neox_train.errors import DataError
from tests.data.pairs import write_pair

LENGTH = 40_000_000


def test_ids_beyond_the_vocabulary_are_told_when_the_files_open(tmp_path: Path) -> None:
    prefix = write_pair(tmp_path / "tokens", [[1, 2, 3], [4, 9]])
    MmapTokens.open(prefix)
    MmapTokens.open(prefix, 10)
    with pytest.raises(DataError) as caught:
        MmapTokens.open(prefix, 9)
    assert str(caught.value) == (
        f"{prefix}.bin has the token id 9, and the tokenizer has 9 ids, 0 to 8; set `vocab_file` to the tokenizer that "
        "made the files, or `vocab_size` to its ids"
    )
    with pytest.raises(DataError, match="has the token id -7"):
        MmapTokens.open(write_pair(tmp_path / "negative", [[1, -7]]), 10)


def test_what_the_sample_passed_over_is_told_when_it_is_read(tmp_path: Path) -> None:
    """One id in 40 million, between the blocks of the sample."""
    prefix = write_pair(tmp_path / "tokens", [[1]])
    index = (tmp_path / "tokens.idx").read_bytes()
    start = len(b"MMIDIDX\x00\x00") + 8 + 1 + 16
    (tmp_path / "tokens.idx").write_bytes(index[:start] + np.int32(LENGTH).tobytes() + index[start + 4 :])
    ids = np.zeros(LENGTH, dtype="<i4")
    ids[100_000] = 77
    ids.tofile(tmp_path / "tokens.bin")
    stream = ItemStream(MmapTokens.open(prefix, 50), np.arange(1))
    assert stream.read(0, 100_000).max() == 0
    with pytest.raises(DataError, match="has the token id 77, and the tokenizer has 50 ids"):
        stream.read(99_000, 101_000)


def test_marks_of_labels_are_no_ids(tmp_path: Path) -> None:
    tokens = write_pair(tmp_path / "tokens", [[1, 2, 3]])
    labels = write_pair(tmp_path / "labels", [[-100, 2, -100]])
    assert ItemStream(open_items(tokens, labels, 4), np.arange(1)).read(0, 3).tolist() == [~1, 2, ~3]
    with pytest.raises(DataError, match="has the token id 3"):
        open_items(tokens, labels, 3)


def test_no_ids_are_fine() -> None:
    require_known_ids(np.zeros(0, dtype=np.int64), 1, Path("a.bin"))
