"""Folders as a finished chain leaves them, with files of a few bytes: for what only looks at names, sizes, digests."""

from __future__ import annotations

import hashlib
from pathlib import Path

from neox_train.checkpoint.export_record import RECORD_NAME
from neox_train.checkpoint.manifest import FileRecord, Manifest, World, write_manifest
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.config.load import load_config, write_config
from neox_train.config.schema import NeoxConfig
from neox_train.data.manifest import Shard, Split, load_manifest, make_manifest
from neox_train.files import sha256_file, write_json

CASES = Path(__file__).parents[1] / "cases"
STEP = 20
VOCAB_SIZE = 251


def make_dataset(folder: DatasetFolder, *, tokens: bytes = b"12345678") -> DatasetFolder:
    """A dataset of one shard; other ``tokens`` give another digest."""
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.tokenizer.write_text("{}")
    file = folder.shard("train", 0)
    file.write_bytes(tokens)
    shard = Shard(file=file.name, sha256=sha256_file(file), bytes=len(tokens), tokens=4, documents=1)
    manifest = make_manifest(
        vocab_size=VOCAB_SIZE,
        dtype="uint16",
        eod_token="<|endoftext|>",
        eod_id=0,
        tokenizer_sha256=sha256_file(folder.tokenizer),
        splits={"train": Split(documents=1, tokens=4, bytes=8, shards=(shard,))},
        sources={"files": 1, "bytes": 8, "digest": ""},
    )
    manifest.write(folder.path)
    write_json(folder.tokenized, {"dataset": folder.name, "digest": manifest.digest})
    return folder


def make_trained_run(run: RunFolder, dataset: DatasetFolder, **overrides: object) -> NeoxConfig:
    """A run trained to its last step on ``dataset`` and exported; returns its configuration."""
    files = [CASES / "base.yml", CASES / "optimizer.yml"]
    config = load_config(files, overrides={"data_path": str(dataset.path), **overrides}).with_vocab_size(VOCAB_SIZE)
    write_config(config, run.config_file)
    digest = _make_checkpoint(run, config, dataset)
    finished = {
        "run": run.name,
        "step": config.train_iters,
        "train_iters": config.train_iters,
        "checkpoint": f"checkpoints/step_{STEP:08}",
        "manifest_sha256": digest,
        "training_digest": config.training_digest(),
        "dataset_digest": _digests(dataset)["dataset"],
    }
    write_json(run.finished, finished)
    write_json(run.trained, finished)
    for file in (run.memory_json, run.memory_png, run.metrics, run.estimated):
        file.write_text("{}")
    run.hf.mkdir()
    (run.hf / "config.json").write_text("{}")
    export = {"manifest_sha256": digest, "files": {"config.json": {"bytes": 2}}}
    write_json(run.hf / RECORD_NAME, export)
    write_json(run.parity, {"manifest_sha256": digest, "within_tolerance": True})
    write_json(run.converted, export)
    return config


def _make_checkpoint(run: RunFolder, config: NeoxConfig, dataset: DatasetFolder) -> str:
    """SHA-256 of the manifest of the checkpoint written."""
    checkpoint = run.checkpoints / f"step_{STEP:08}"
    checkpoint.mkdir(parents=True)
    (checkpoint / "weights.safetensors").write_bytes(b"weights")
    relevant = config.training_relevant()
    manifest = Manifest(
        step=STEP,
        world=World(size=1, dp=1),
        parameters={},
        files={"weights.safetensors": FileRecord(bytes=7, sha256=hashlib.sha256(b"weights").hexdigest())},
        digests={"config": config.training_digest(), **_digests(dataset)},
        training_relevant=relevant,
        other_settings={key: value for key, value in config.to_dict().items() if key not in relevant},
        final=True,
    )
    write_manifest(checkpoint, manifest)
    return sha256_file(checkpoint / "manifest.json")


def _digests(dataset: DatasetFolder) -> dict[str, str]:
    manifest = load_manifest(dataset.path)
    return {"dataset": manifest.digest, "tokenizer": manifest.tokenizer_sha256}
