from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from neox_train.checkpoint.weights import read_model_weights
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


def test_weights_are_read_and_exported_without_deepspeed() -> None:
    """It takes seconds to import and writes a warning of its own where no GPU is."""
    code = (
        "import sys, neox_train.checkpoint.convert, neox_train.checkpoint.weights\n"
        "from transformers import GPTNeoXForCausalLM, LlamaForCausalLM, MistralForCausalLM\n"
        "assert 'deepspeed' not in sys.modules"
    )
    environment = {name: value for name, value in os.environ.items() if name != "DS_ACCELERATOR"}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")
