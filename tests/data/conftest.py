"""A byte-level tokenizer and small datasets made by the real tokenize stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from neox_train.config.layout import DatasetFolder
from neox_train.config.pipeline import DatasetSpec
from neox_train.data.manifest import Manifest
from neox_train.data.store import TokenStore
from neox_train.data.tokenize import tokenize_dataset
from neox_train.data.tokenizer import load_tokenizer

ALL_TRAIN = {"train": 1.0, "validation": 0.0, "test": 0.0}


@pytest.fixture(scope="session")
def byte_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer.json with one token a byte and <|endoftext|>, id 256."""
    vocabulary = {letter: index for index, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.fixture
def make_spec(byte_tokenizer: Path) -> Callable[..., DatasetSpec]:
    """Build a DatasetSpec over files, all of it train, with the byte-level tokenizer."""

    def make(
        *files: Path, splits: dict[str, float] = ALL_TRAIN, tokenizer: Path | None = None, **source
    ) -> DatasetSpec:
        return DatasetSpec.model_validate(
            {
                "source": {"kind": "files", "files": [str(file) for file in files], **source},
                "splits": splits,
                "tokenizer": {"file": str(tokenizer or byte_tokenizer)},
            }
        )

    return make


@pytest.fixture
def folder(tmp_path: Path) -> DatasetFolder:
    """Where the test's dataset goes."""
    return DatasetFolder(tmp_path / "dataset")


@pytest.fixture
def build(folder: DatasetFolder) -> Callable[[DatasetSpec], Manifest]:
    """Tokenize a spec into ``folder`` without output."""
    return lambda spec: tokenize_dataset(spec, folder, report=lambda line: None)


def read_texts(folder: DatasetFolder, splits: Sequence[str] = ("train",)) -> list[str]:
    """Decoded text of every document, after asserting that each ends with exactly one end-of-document token."""
    tokenizer = load_tokenizer(folder.tokenizer)
    texts = []
    for split in splits:
        store = TokenStore.open(folder.path, split)
        for index in range(store.num_documents):
            ids = store.document(index)
            assert ids[-1] == tokenizer.eod_id and (ids == tokenizer.eod_id).sum() == 1
            texts.append(tokenizer.decode(ids[:-1]))
    return texts


def left_behind(folder: DatasetFolder) -> set[str]:
    """Names in the dataset's folder but for the lock."""
    return {path.name for path in folder.path.iterdir()} - {".lock"} if folder.path.exists() else set()
