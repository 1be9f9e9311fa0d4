"""Label files in a training: what they mask is no target, and takes no part in any loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from neox_train.config.architecture import Architecture
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.data.mmap_files import MmapTokens
from neox_train.errors import ConfigError
from neox_train.training.dataset import TrainingData
from neox_train.training.distributed import RankContext
from neox_train.training.engine import build_engine
from neox_train.training.step import measure_validation_loss
from neox_train.training.targets import split_windows
from tests.data.pairs import write_pair
from tests.training.synthetic import VOCAB_SIZE, resolve


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two sets of text, and labels of the second that mask the first half of every item."""
    folder = tmp_path_factory.mktemp("pairs")
    random = np.random.default_rng(7)
    lengths = random.integers(20, 90, 60).tolist()
    texts = {name: [random.integers(1, VOCAB_SIZE, size=length).tolist() for length in lengths] for name in "ab"}
    labels = [[-100] * (len(item) // 2) + item[len(item) // 2 :] for item in texts["b"]]
    return {name: str(write_pair(folder / name, items)) for name, items in {**texts, "labels": labels}.items()}


def open_data(dataset: DatasetFolder, **changes: Any) -> tuple[Any, TrainingData]:
    config = resolve(dataset, RunFolder(Path("unused")), vocab_size=VOCAB_SIZE, **changes)
    return config, TrainingData.open(config)


def test_the_loss_is_of_the_targets_that_labels_leave(
    dataset: DatasetFolder, alone: RankContext, pairs: dict[str, str]
) -> None:
    sets = {"valid_data_paths": [pairs["b"]], "valid_label_data_paths": [pairs["labels"]]}
    config, data = open_data(dataset, train_data_paths=[pairs["a"]], **sets)
    engine, model = build_engine(config, Architecture.from_config(config), alone)
    measured = measure_validation_loss(engine, data.validation_batches(config, alone), alone)
    text, marks = (np.concatenate(list(MmapTokens.open(Path(pairs[name])))) for name in ("b", "labels"))
    expected, length, micro = [], config.seq_length, config.train_micro_batch_size_per_gpu
    with torch.no_grad():
        for batch in range(config.eval_iters):
            starts = [(batch * micro + place) * length for place in range(micro)]
            inputs = torch.tensor(np.array([text[start : start + length] for start in starts])).long()
            targets = torch.tensor(np.array([marks[start + 1 : start + length + 1] for start in starts])).long()
            logits = model(inputs)[..., :VOCAB_SIZE]
            expected.append(float(F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)))
    assert measured == pytest.approx(sum(expected) / len(expected), rel=1e-6)


def test_a_training_reads_its_labels(dataset: DatasetFolder, alone: RankContext, pairs: dict[str, str]) -> None:
    windows, digests = [], set()
    for labels in (None, [pairs["labels"]]):
        config, data = open_data(dataset, train_data_paths=[pairs["b"]], train_label_data_paths=labels)
        windows.append(torch.as_tensor(next(data.train_batches(config, alone, 0))))
        digests.add(data.digests["dataset"])
    plain, marked = (split_windows(some, None) for some in windows)
    assert torch.equal(plain[0], marked[0]) and len(digests) == 2
    masked = marked[1] == -100
    assert 0.3 < float(masked.float().mean()) < 0.7 and torch.equal(marked[1][~masked], plain[1][~masked])


def test_labels_of_anything_else_are_one_sentence(dataset: DatasetFolder, pairs: dict[str, str]) -> None:
    folder = str(dataset.path)
    with pytest.raises(
        ConfigError, match="train_label_data_paths` is set, and `train_data_paths` names dataset folders"
    ):
        open_data(dataset, train_data_paths=[folder], train_label_data_paths=[pairs["labels"]])
    with pytest.raises(ConfigError, match="test_label_data_paths` is set, and `test_data_paths` names dataset folders"):
        open_data(dataset, test_data_paths=[folder], test_label_data_paths=[pairs["labels"]])
    with pytest.raises(ConfigError, match="valid_label_data_paths`: nowhere is no pair"):
        open_data(dataset, valid_data_paths=[pairs["b"]], valid_label_data_paths=["nowhere"])
