"""Keys about tokens that a dataset folder leaves nothing to do."""

from __future__ import annotations

from pathlib import Path

from neox_train.config.layout import RunFolder
from neox_train.data.vocabulary import list_unread
from tests.training.synthetic import resolve, write_dataset


def test_a_tokenizer_file_beside_a_dataset_folder_is_said_not_to_be_read(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "synthetic", train_tokens=2000, validation_tokens=500)
    run = RunFolder(tmp_path / "run")
    (sentence,) = list_unread(resolve(dataset, run, vocab_file="/nonexistent/tokenizer.json"))
    assert "vocab_file /nonexistent/tokenizer.json is not read" in sentence and str(dataset.path) in sentence
    assert list_unread(resolve(dataset, run, vocab_file=str(dataset.tokenizer))) == []
    assert list_unread(resolve(dataset, run)) == []
