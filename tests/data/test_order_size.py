from __future__ import annotations

from pathlib import Path

import pytest

from neox_train.data.order_size import count_number_bytes, count_order_bytes
from tests.config.files import load_tiny


@pytest.mark.parametrize(("windows", "width"), [(1, 4), (2**32 - 3, 4), (2**32 - 2, 8)])
def test_numbers_are_as_wide_as_they_must_be(windows: int, width: int) -> None:
    assert count_number_bytes(windows) == width


@pytest.mark.parametrize("key", ["data_path", "train_data_paths"])
def test_only_pair_files_have_a_table(tmp_path: Path, key: str) -> None:
    prefix = str(tmp_path / "tokens")
    config = load_tiny(**{key: [prefix] if key.endswith("s") else prefix, "train_iters": 1000})
    assert count_order_bytes(config) == 0
    Path(prefix + ".idx").touch()
    assert count_order_bytes(config) == 4 * 1000 * config.train_batch_size
