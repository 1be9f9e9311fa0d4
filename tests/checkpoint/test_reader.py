from __future__ import annotations

from pathlib import Path

import pytest
import torch

from neox_train.checkpoint.reader import read_model_weights
from neox_train.errors import CheckpointError
from tests.checkpoint.small_checkpoint import make_weights, write_checkpoint


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_weights_are_whole_whatever_wrote_them(tmp_path: Path, ranks: int) -> None:
    weights = read_model_weights(write_checkpoint(tmp_path, 30, ranks=ranks))
    wanted = make_weights(30)
    assert list(weights) == list(wanted)
    for name, weight in weights.items():
        assert weight.dtype == torch.float32
        assert torch.equal(weight, wanted[name])


def test_a_torn_checkpoint_is_refused_in_a_sentence(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, 30)
    (folder / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        read_model_weights(folder)
