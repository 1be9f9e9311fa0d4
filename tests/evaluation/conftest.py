"""A tiny dataset in the real store, a real tokenizer and exported models, made once for all evaluation tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, PreTrainedTokenizerFast

from neox_train.config.layout import DatasetFolder
from neox_train.data.manifest import Manifest, Sources
from neox_train.data.shards import SplitWriter
from neox_train.files import make_folder, sha256_file

EOD = "<|endoftext|>"
TEXTS = {
    "train": [f"The {animal} eats {food}.\n" * 4 for animal in ("cat", "dog", "mouse") for food in ("bread", "fish")],
    "test": [
        "The dog eats fish, the café is open.\n",
        "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. " * 5,
        "x",
        "The mouse eats bread and 漢字 too.\n" * 6,
    ],
}


@dataclass(frozen=True)
class TinyDataset:
    folder: DatasetFolder
    manifest: Manifest
    tokenizer: Tokenizer
    texts: dict[str, list[str]]


def train_tokenizer(vocab_size: int = 280) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=[EOD], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(TEXTS["train"], trainer)
    return tokenizer


def build_dataset(root: Path, tokenizer: Tokenizer, texts: dict[str, list[str]]) -> TinyDataset:
    folder = DatasetFolder(make_folder(root))
    tokenizer.save(str(folder.tokenizer))
    vocab_size, eod_id = tokenizer.get_vocab_size(), tokenizer.token_to_id(EOD)
    digest = sha256_file(folder.tokenizer)
    splits = {}
    for split, documents in texts.items():
        writer = SplitWriter(
            lambda index, split=split: folder.shard(split, index),
            vocab_size=vocab_size,
            eod_id=eod_id,
            tokenizer_sha256=digest,
            max_tokens_per_shard=200,
        )
        for text in documents:
            writer.append(np.array(tokenizer.encode(text).ids, dtype=np.int64), len(text.encode("utf-8")))
        splits[split] = writer.finish()
    manifest = Manifest(
        digest="d" * 64,
        vocab_size=vocab_size,
        dtype="uint16",
        eod_token=EOD,
        eod_id=eod_id,
        tokenizer_sha256=digest,
        splits=splits,
        sources=Sources(files=1, bytes=1, digest="0"),
    )
    manifest.write(folder.path)
    return TinyDataset(folder, manifest, tokenizer, texts)


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> TinyDataset:
    return build_dataset(tmp_path_factory.mktemp("datasets") / "tiny", train_tokenizer(), TEXTS)


def make_model(vocab_size: int, *, uniform: bool = False, seed: int = 1) -> GPTNeoXForCausalLM:
    """A tiny model; a uniform one gives every token the same probability."""
    torch.manual_seed(seed)
    config = GPTNeoXConfig(
        vocab_size=vocab_size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
        initializer_range=0.2,
    )
    model = GPTNeoXForCausalLM(config).eval()
    if uniform:
        torch.nn.init.zeros_(model.get_output_embeddings().weight)
    return model


@pytest.fixture
def export(dataset: TinyDataset) -> Callable[..., Path]:
    """Writes an exported folder: model and tokenizer through transformers' own save_pretrained."""

    def write(folder: Path, *, uniform: bool = False, seed: int = 1) -> Path:
        make_model(dataset.manifest.vocab_size, uniform=uniform, seed=seed).save_pretrained(folder)
        PreTrainedTokenizerFast(tokenizer_object=dataset.tokenizer, eos_token=EOD).save_pretrained(folder)
        return folder

    return write
