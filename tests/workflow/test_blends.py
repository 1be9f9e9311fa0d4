"""Datasets of the pipeline that a run's blend names are made before its training."""

from pathlib import Path

import pytest

from tests.workflow.working_copy import WorkingCopy

pytestmark = pytest.mark.workflow

PIPELINE = """
datasets:
  words: &words
    source: {kind: files, files: ["corpus/*.txt"], format: text}
    splits: {train: 0.8, validation: 0.1, test: 0.1}
    tokenizer: {file: tokenizer.json}
  more: *words
  other: *words
runs:
  plain: {config: [model.yml], dataset: words}
  blended:
    config: [model.yml]
    dataset: words
    overrides: {train_data_paths: [results/datasets/words, results/datasets/more]}
"""


def test_the_training_waits_for_every_dataset_of_its_blend(tmp_path: Path) -> None:
    copy = WorkingCopy.make(tmp_path / "copy")
    (copy.folder / "pipeline.yaml").write_text(PIPELINE)
    plain, blended = (copy.dry_run(f"results/runs/{name}/trained.json") for name in ("plain", "blended"))
    wanted = ["tokenizing words", "tokenizing more", "tokenizing other"]
    assert [job in plain for job in wanted] == [True, False, False]
    assert [job in blended for job in wanted] == [True, True, False]
