from __future__ import annotations

from pathlib import Path

import pytest

from neox_train.checkpoint import space
from neox_train.checkpoint.space import checkpoint_size_bytes, require_space
from neox_train.config.architecture import Architecture
from neox_train.config.load import load_config
from neox_train.config.parameters import count_parameters
from neox_train.errors import StorageError
from neox_train.files import free_bytes


def test_adam_needs_twelve_bytes_a_parameter(cases: Path) -> None:
    # A large vocabulary, so that headers do not matter.
    config = load_config([cases / "base.yml", cases / "optimizer.yml"]).with_vocab_size(50_304)
    parameters = count_parameters(Architecture.from_config(config))
    assert checkpoint_size_bytes(config) == pytest.approx(12 * parameters, rel=0.01)


def test_padding_rows_are_not_counted(cases: Path) -> None:
    config = load_config([cases / "base.yml", cases / "optimizer.yml"])
    one, two = (checkpoint_size_bytes(config.with_vocab_size(size)) for size in (50_000, 50_001))
    assert two - one == 2 * 64 * 12


def test_a_disk_without_room_for_one_is_refused_with_the_numbers(tmp_path: Path) -> None:
    needed = 10 * free_bytes(tmp_path)
    with pytest.raises(StorageError) as refusal:
        require_space(tmp_path / "checkpoints", needed, saves=1)
    assert f"{needed} bytes needed" in str(refusal.value)
    assert "bytes free" in str(refusal.value)
    assert str(tmp_path) in str(refusal.value)


@pytest.mark.parametrize(
    ("saves", "keep_last_n", "protected", "warned"),
    [(1, None, 0, False), (2, None, 0, True), (9, 1, 0, True), (1, 3, 2, False), (0, None, 0, False), (5, -1, 0, True)],
)
def test_room_for_one_and_a_half(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    saves: int,
    keep_last_n: int | None,
    protected: int,
    warned: bool,
) -> None:
    monkeypatch.setattr(space, "free_bytes", lambda path: 1500)
    warnings = require_space(tmp_path, 1000, saves=saves, keep_last_n=keep_last_n, protected=protected)
    assert bool(warnings) == warned
    if warned:
        assert "1000 each" in warnings[0]
        assert "1500 bytes are free" in warnings[0]
