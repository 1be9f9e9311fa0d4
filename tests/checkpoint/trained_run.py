"""A run trained for two steps on real text by the real trainer, for tests of what comes after training."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.config.load import load_config, write_config
from neox_train.data.manifest import Manifest, Sources, content_digest
from neox_train.data.shards import SplitWriter
from neox_train.files import sha256_file

CASES = Path(__file__).resolve().parents[1] / "cases"
END_OF_DOCUMENT = "<|endoftext|>"
RENDEZVOUS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


def make_tokenizer(path: Path, *, vocab_size: int = 300) -> Tokenizer:
    """A byte-level BPE tokenizer trained on two modules of the standard library."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_DOCUMENT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_documents(), trainer)
    path.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(path))
    return tokenizer


def make_dataset(folder: Path) -> DatasetFolder:
    """A token store of that text, the same documents in every split."""
    dataset = DatasetFolder(folder)
    tokenizer = make_tokenizer(dataset.tokenizer)
    about: dict[str, Any] = {
        "vocab_size": tokenizer.get_vocab_size(),
        "eod_id": tokenizer.token_to_id(END_OF_DOCUMENT),
        "tokenizer_sha256": sha256_file(dataset.tokenizer),
    }
    splits = {}
    for split in ("train", "validation", "test"):
        writer = SplitWriter(lambda index, split=split: dataset.shard(split, index), **about)  # type: ignore[misc]
        for document in _documents():
            writer.append(np.array(tokenizer.encode(document).ids), text_bytes=len(document.encode()))
        splits[split] = writer.finish()
    digest = content_digest(**about, dtype="uint16", splits=splits)
    Manifest(
        digest=digest,
        dtype="uint16",
        eod_token=END_OF_DOCUMENT,
        splits=splits,
        sources=Sources(files=0, bytes=0, digest=""),
        **about,
    ).write(folder)
    return dataset


def train_run(folder: Path, dataset: DatasetFolder, *files: str, **overrides: Any) -> RunFolder:
    """Two steps of the cases' tiny model with ``files`` stacked on it, in a process of its own."""
    run = RunFolder(folder)
    places = {"data_path": str(dataset.path), "save": str(run.checkpoints), "load": str(run.checkpoints)}
    config = load_config(
        [CASES / name for name in ("base.yml", "optimizer.yml", *files)],
        overrides={"train_iters": 2, "lr_decay_iters": 2, "checkpoint_factor": 1} | places | overrides,
        world_size=1,
    )
    vocab_size = json.loads(dataset.manifest.read_text())["vocab_size"]
    write_config(config.with_vocab_size(vocab_size), run.config_file)
    code = f"from neox_train.training.entry import train_rank; assert train_rank({str(folder)!r}) == 'finished'"
    # A training that an earlier test ran in this process left its rendezvous in the environment; its port is taken.
    environment = {name: value for name, value in os.environ.items() if name not in RENDEZVOUS}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=280, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return run


def _documents() -> list[str]:
    return [inspect.getsource(module) for module in (json, textwrap)]
