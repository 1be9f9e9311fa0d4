"""Proofs for a node of several GPUs, in bf16 over NCCL; on CPUs the same tests run over gloo, in the long lane.

DS_ACCELERATOR=cuda python -m pytest tests/several_gpus          # as many ranks as there are GPUs, 8 at most
"""

from __future__ import annotations

import os

import pytest
import torch

from neox_train.config.layout import DatasetFolder
from tests.training.synthetic import write_dataset

ON_GPUS = os.environ["DS_ACCELERATOR"] != "cpu"


def require_ranks(number: int) -> None:
    """Skip where there are fewer GPUs; CPUs take any number of ranks."""
    if ON_GPUS and torch.cuda.device_count() < number:
        pytest.skip(f"needs {number} GPUs, {torch.cuda.device_count()} are here")


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> DatasetFolder:
    """The synthetic language that the training tests learn."""
    return write_dataset(tmp_path_factory.mktemp("data") / "synthetic", train_tokens=60_000, validation_tokens=6_000)
