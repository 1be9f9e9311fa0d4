"""A dataset for the whole session, and a process that is a training's only rank."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator

import pytest

from neox_train.config.layout import DatasetFolder
from neox_train.training.distributed import RankContext, start_process_group
from neox_train.training.stop import clear_stop
from tests.gloo import EXPORTED
from tests.training.synthetic import write_dataset


@pytest.fixture(scope="session", autouse=True)
def _transformer_engine_first() -> None:
    """As in a training: imported before torch's first use of cuDNN, whose libraries it else looks up elsewhere."""
    if os.environ["DS_ACCELERATOR"] == "cuda" and importlib.util.find_spec("transformer_engine"):
        importlib.import_module("transformer_engine.pytorch")


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> DatasetFolder:
    return write_dataset(tmp_path_factory.mktemp("dataset") / "synthetic")


@pytest.fixture
def alone() -> Iterator[RankContext]:
    """This process as rank 0 of 1, with the variables a launcher would set taken away afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        for name in EXPORTED:
            patch.delenv(name, raising=False)
        clear_stop()
        yield start_process_group("gloo")
        clear_stop()
        for name in EXPORTED:
            patch.delenv(name, raising=False)
