"""Case 01a: a configuration whose numbers carry exponents trains, with those numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from neox_train.config.layout import RunFolder
from neox_train.config.load import load_config, write_config
from tests.training.ranks import start_ranks
from tests.training.synthetic import VOCAB_SIZE, write_dataset


@pytest.mark.distributed
def test_01a_one_step_with_every_spelling_of_a_number(cases: Path, tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "dataset")
    run = RunFolder(tmp_path / "run")
    overrides = {"train_iters": 1, "data_path": str(dataset.path), "save": str(run.checkpoints)}
    config = load_config([cases / "base.yml", cases / "01-floats.yml"], overrides=overrides)
    write_config(config.with_vocab_size(VOCAB_SIZE), run.config_file)

    [(code, printed)] = start_ranks(run, 1).wait()

    assert code == 0, printed
    assert json.loads(run.finished.read_text())["step"] == 1
    lines = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    [step] = [line for line in lines if line["kind"] == "train"]
    # Warm-up takes two steps: the first runs at half the written rate.
    assert step["lr"] == pytest.approx(3e-4, rel=1e-12)
