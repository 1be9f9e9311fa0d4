"""Held-out text: decoded bytes are the documents' own, the limit is kept, a lossy tokenizer is owned up to."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import normalizers
from transformers import PreTrainedTokenizerFast

from neox_train.data.store import TokenStore
from neox_train.errors import UserError
from neox_train.evaluation.held_out import HeldOut, open_held_out
from tests.evaluation.conftest import EOD, TEXTS, TinyDataset, build_dataset, train_tokenizer


def open_split(dataset: TinyDataset, max_bytes: int | None = None, split: str = "test") -> HeldOut:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=dataset.tokenizer, eos_token=EOD)
    store = TokenStore.open(dataset.folder.path, split)
    return open_held_out(store, dataset.manifest, tokenizer, split=split, max_bytes=max_bytes)


def test_texts_are_the_documents_bytes(dataset: TinyDataset):
    held_out = open_split(dataset)
    assert [text.decode() for text in held_out.texts()] == TEXTS["test"]
    assert held_out.num_bytes == sum(len(text.encode()) for text in TEXTS["test"])
    assert held_out.note is None
    assert held_out.lengths == [len(document) for document in held_out.documents()]


def test_the_limit_takes_whole_documents_and_at_least_one(dataset: TinyDataset):
    sizes = [len(text.encode()) for text in TEXTS["test"]]
    assert open_split(dataset, max_bytes=1).num_bytes == sizes[0]
    limited = open_split(dataset, max_bytes=sizes[0] + sizes[1])
    assert (limited.num_documents, limited.num_bytes) == (2, sizes[0] + sizes[1])


def test_a_tokenizer_that_loses_text_counts_the_original_bytes(tmp_path: Path):
    tokenizer = train_tokenizer()
    tokenizer.normalizer = normalizers.NFC()
    text = "cafe\u0301\n"
    held_out = open_split(build_dataset(tmp_path / "lossy", tokenizer, {"train": [text], "test": [text]}))
    assert held_out.num_bytes == len(text.encode())
    assert held_out.note is not None and "normalises" in held_out.note


def test_an_end_of_document_written_in_a_text_stays_text(tmp_path: Path):
    tokenizer = train_tokenizer()
    tokenizer.encode_special_tokens = True
    text = f"before {EOD} after"
    held_out = open_split(build_dataset(tmp_path / "special", tokenizer, {"train": [text], "test": [text]}))
    assert list(held_out.texts()) == [text.encode()]


def test_an_empty_split_is_refused_in_a_sentence(tmp_path: Path):
    empty = build_dataset(tmp_path / "empty", train_tokenizer(), {"train": ["a"], "test": []})
    with pytest.raises(UserError, match=r"split test has no documents.*another split"):
        open_split(empty)
