"""Targets of training windows, and the loss that leaves some of them out."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from neox_train.config.architecture import Architecture
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.model.loss import IGNORED
from neox_train.training.dataset import TrainingData
from neox_train.training.distributed import RankContext
from neox_train.training.engine import build_engine
from neox_train.training.step import measure_validation_loss
from neox_train.training.targets import split_windows
from tests.training.synthetic import END_OF_DOCUMENT, resolve

WINDOWS = torch.tensor([[5, 0, 6, 7, 0], [0, 1, 2, 3, 4]])


def test_the_successor_of_an_end_is_left_out() -> None:
    inputs, targets = split_windows(WINDOWS, 0)
    assert inputs.tolist() == [[5, 0, 6, 7], [0, 1, 2, 3]]
    assert targets.tolist() == [[0, IGNORED, 7, 0], [IGNORED, 2, 3, 4]]
    assert torch.equal(split_windows(WINDOWS, None)[1], WINDOWS[:, 1:])


def test_the_validation_loss_leaves_them_out(dataset: DatasetFolder, alone: RankContext) -> None:
    config = resolve(dataset, RunFolder("unused"), eod_mask_loss=True)
    data = TrainingData.open(config)
    assert data.document_end == END_OF_DOCUMENT
    engine, model = build_engine(config, Architecture.from_config(config), alone, document_end=data.document_end)
    batches = [torch.from_numpy(batch) for batch in data.validation_batches(config, alone)]
    measured = measure_validation_loss(engine, data.validation_batches(config, alone), alone, data.document_end)
    expected, left_out = [], 0
    with torch.no_grad():
        for batch in batches:
            logits = model(batch[:, :-1])[..., : config.vocab_size].flatten(0, 1)
            losses = F.cross_entropy(logits, batch[:, 1:].flatten(), reduction="none")
            counts = batch[:, :-1].flatten() != END_OF_DOCUMENT
            expected.append(float(losses[counts].mean()))
            left_out += int((~counts).sum())
    assert left_out > 0
    assert measured == pytest.approx(sum(expected) / len(expected), rel=1e-6)


def test_documents_without_their_end_are_refused(dataset: DatasetFolder, alone: RankContext) -> None:
    config = resolve(dataset, RunFolder("unused"), document_attention=True)
    with pytest.raises(ValueError, match="token that ends a document"):
        build_engine(config, Architecture.from_config(config), alone)
