"""Room on the disk for checkpoints: counted before a run, and said in one sentence when it is not there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from neox_train.checkpoint.table import build_table, count_elements
from neox_train.config.architecture import Architecture
from neox_train.config.compression import list_candidates
from neox_train.config.one_bit import FURTHER_STATES, uses_one_bit
from neox_train.errors import StorageError
from neox_train.files import OTHER_DISK, free_bytes

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

_FP32_BYTES = 4
_MOMENTS = {"sgd": 1, "lion": 1}
_ADAM_MOMENTS = 2
_QUANTISED_MOMENT_BYTES = 1 + 4 / 256
"""One byte an element and one fp32 scale a block of 256 elements."""
_HEADER_BYTES_PER_PARAMETER = 1024
_RANK_BYTES = 16 * 1024
"""Random number streams and headers of one rank's file."""
_MANIFEST_BYTES = 64 * 1024


def checkpoint_size_bytes(config: NeoxConfig) -> int:
    """Bytes of one checkpoint, to within a percent: fp32 weights and optimizer moments, without vocabulary padding."""
    elements = [count_elements(record) for record in build_table(Architecture.from_config(config)).values()]
    kind = config.optimizer_type.lower()
    moments = _MOMENTS.get(kind, _ADAM_MOMENTS)
    if kind == "sgd" and not (config.optimizer or {}).get("params", {}).get("momentum"):
        moments = 0
    moment_bytes = _QUANTISED_MOMENT_BYTES if config.use_bnb_optimizer else _FP32_BYTES
    overhead = len(elements) * _HEADER_BYTES_PER_PARAMETER + config.world_size * _RANK_BYTES + _MANIFEST_BYTES
    held = _FP32_BYTES + moments * moment_bytes + _own_bytes(config, moments)
    return int(sum(elements) * held) + overhead


def _own_bytes(config: NeoxConfig, moments: int) -> float:
    """Bytes an element that replicas save each for itself; PowerSGD's factors are small beside its residual."""
    if config.gradient_compression == "powersgd":
        return _FP32_BYTES * config.data_parallel_size
    if config.gradient_compression == "auto":
        return max(_own_bytes(config.with_compression(method), moments) for method in list_candidates(config))
    if config.gradient_compression == "local_update":
        # Weights and moments of every replica, and the outer momentum once.
        return _FP32_BYTES * (config.data_parallel_size * (1 + moments) + 1)
    if uses_one_bit(config):
        ranks, is_lamb = config.data_parallel_size, config.optimizer_type == "onebitlamb"
        rests = 1 + 1 / ranks
        states = FURTHER_STATES[config.gradient_compression]
        # Of every rank weights, moments, further states and rests (1-bit LAMB's momenta twice); of the first, states
        # with their rests once more.
        own = ranks * (1 + moments + states + rests + is_lamb)
        return _FP32_BYTES * (own + states + (0 if is_lamb else rests))
    return 0


def require_space(
    root: Path, checkpoint_bytes: int, *, saves: int, keep_last_n: int | None = None, protected: int = 0
) -> list[str]:
    """Check, before a run, the room for the checkpoints it has yet to write; returns warnings.

    ``saves`` is how many it will write, ``keep_last_n`` how many stay (None: all), ``protected`` how many stay
    besides. Raises StorageError where not even one fits; warns where the run's most do not fit at once.
    """
    free = free_bytes(root)
    if saves <= 0:
        return []
    if free < checkpoint_bytes:
        raise StorageError(describe_full_disk(Path(root), checkpoint_bytes, free))
    held = saves if keep_last_n is None or keep_last_n <= 0 else min(saves, keep_last_n + 1 + protected)
    needed = held * checkpoint_bytes
    if free >= needed:
        return []
    return [
        f"{root}: the run's {held} checkpoints need {needed} bytes ({checkpoint_bytes} each) and {free} bytes are "
        f"free; make room, {OTHER_DISK}, or set `keep_last_n_checkpoints` lower"
    ]


def describe_full_disk(path: Path, needed: int, free: int) -> str:
    """The one sentence for a disk without room for a checkpoint."""
    return (
        f"{path}: the disk is too full for a checkpoint ({needed} bytes needed, {free} bytes free); "
        f"make room or {OTHER_DISK}, then repeat the same command"
    )
