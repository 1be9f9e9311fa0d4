from __future__ import annotations

from pathlib import Path

import pytest

from neox_train.config.pipeline import load_pipeline
from tests.config.files import refuse

GOOD = """
datasets:
  stdlib:
    source: {kind: python_stdlib, max_bytes: 10000000}
    splits: {train: 0.96, validation: 0.02, test: 0.02}
    tokenizer: {train: bpe, vocab_size: 4096}
runs:
  serial:
    config: [a.yml, b.yml]
    dataset: stdlib
    overrides:
      seed: 7
      optimizer.params.lr: 6e-4
evaluation:
  continuations: 2
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "pipeline.yaml"


def test_a_good_file(file: Path) -> None:
    file.write_text(GOOD)
    pipeline = load_pipeline(file)
    run = pipeline.run("serial")
    assert run.nodes == 1
    assert run.overrides == {"seed": 7, "optimizer.params.lr": 6e-4}
    assert pipeline.dataset("stdlib").end_of_document == "<|endoftext|>"
    assert pipeline.evaluation.continuation_tokens == 64
    assert pipeline.file == str(file)
    places = pipeline.find_places("runs.serial.overrides")
    assert places["optimizer.params.lr"].line == 13


def test_names_that_are_not_there(file: Path) -> None:
    file.write_text(GOOD)
    pipeline = load_pipeline(file)
    assert refuse(lambda: pipeline.run("parallel")) == f"{file} has no run 'parallel'; it has serial"
    assert refuse(lambda: pipeline.dataset("x")) == f"{file} has no dataset 'x'; it has stdlib"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("dataset: stdlib", "dataset: other", "line 10: runs.serial.dataset is 'other'; the datasets are stdlib"),
        ("datasets:", "datset:", "line 2: datset is not a known key; did you mean datasets?"),
        ("kind: python_stdlib", "kind: web", "datasets.stdlib.source.kind is 'web'; one of"),
        ("kind: python_stdlib", "kind: files", "source.files is empty"),
        ("train: 0.96", "train: 0.9", "splits add up to 0.94"),
        ("train: bpe, vocab_size: 4096", "train: bpe", "tokenizer.vocab_size is missing"),
        ("train: bpe, vocab_size: 4096", "train: bpe, vocab_size: 100", "vocab_size is 100; at least 257"),
        ("train: bpe,", "train: bpe, file: t.json,", "wants either train (with vocab_size) or file"),
        ("  serial:", "  ../serial:", "runs.../serial is no folder name"),
        ("config: [a.yml, b.yml]", "config: []", "runs.serial.config is []; at least 1 entry is wanted"),
        ("config: [a.yml, b.yml]", "nodes: 2", "line 8: runs.serial.config is missing"),
        ("continuations: 2", "continuations: few", "line 15: evaluation.continuations is 'few'; a whole number"),
    ],
)
def test_mistakes_name_file_line_and_key(file: Path, old: str, new: str, expected: str) -> None:
    assert old in GOOD
    file.write_text(GOOD.replace(old, new, 1))
    sentence = refuse(lambda: load_pipeline(file))
    assert sentence.startswith(str(file))
    assert expected in sentence


def test_the_shipped_pipelines_load(repository: Path) -> None:
    files = sorted((repository / "configs" / "pipelines").glob("*.yaml"))
    assert files
    for file in files:
        assert load_pipeline(file).runs
