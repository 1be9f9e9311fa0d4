"""How large the shuffled table of GPT-NeoX's order is, which every rank makes of .bin/.idx files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from neox_train.data.pair_files import is_pair

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

_WIDE_FROM = 2**32 - 2


def count_number_bytes(num_windows: int) -> int:
    """Bytes of a window's number in the table: as GPT-NeoX's uint32, and int64 for more windows than it counts."""
    return 4 if num_windows < _WIDE_FROM else 8


def count_order_bytes(config: NeoxConfig) -> int:
    """Bytes of a rank's table, a number for each sample of the training at least; 0 for dataset folders."""
    paths = config.train_data_paths or ([config.data_path] if config.data_path else [])
    if not any(is_pair(Path(path)) for path in paths):
        return 0
    samples = (config.train_iters or 0) * config.train_batch_size
    return samples * count_number_bytes(samples)
