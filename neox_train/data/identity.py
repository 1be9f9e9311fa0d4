"""What a training reads, as digests: equal digests, equal token streams."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from neox_train.data.manifest import MANIFEST_NAME, load_manifest
from neox_train.data.pair_files import explain_unread, is_pair, pair_paths
from neox_train.errors import ConfigError, DataError
from neox_train.files import sha256_file, sha256_json

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig


def identify_data(config: NeoxConfig) -> dict[str, str]:
    """Digests ``dataset`` and ``tokenizer`` of what ``config`` trains on; raises ConfigError or DataError.

    The dataset's digest covers every set of a blend with the keys that weigh it. Of .bin/.idx files the index, the size
    of the tokens and ``split`` are covered, not the tokens themselves.
    """
    path = Path(main_path(config))
    if is_pair(path):
        digests = _identify_pair(path, config)
    else:
        manifest = load_manifest(path)
        digests = {"dataset": manifest.digest, "tokenizer": manifest.tokenizer_sha256}
    if config.train_data_paths is None:
        return digests
    blend = {
        "sets": [_identify_set(Path(path)) for path in config.train_data_paths],
        "weights": config.train_data_weights,
        "by_documents": config.weighted_sampler_alpha if config.weight_by_num_documents else None,
        "temperature": config.blend_temperature,
    }
    if config.train_label_data_paths is not None:
        blend["labels"] = [_identify_set(Path(path)) for path in config.train_label_data_paths]
    return digests | {"dataset": sha256_json({"main": digests["dataset"], "blend": blend})}


def main_path(config: NeoxConfig) -> str:
    """Where the tokenizer comes from, and validation unless `valid_data_paths` names it.

    It is ``data_path``, else the blend's first dataset.
    """
    for path in (config.data_path, *(config.train_data_paths or ())):
        if path:
            return path
    raise ConfigError("`data_path` is not set; give it the folder of a tokenized dataset (the one with manifest.json)")


def list_data_paths(config: NeoxConfig) -> list[Path]:
    """Every dataset folder and .bin/.idx prefix that ``config`` names, labels too, each once."""
    lists = (
        config.train_data_paths,
        config.valid_data_paths,
        config.test_data_paths,
        config.train_label_data_paths,
        config.valid_label_data_paths,
        config.test_label_data_paths,
    )
    named = [config.data_path, *(path for paths in lists for path in paths or ())]
    return [Path(path) for path in dict.fromkeys(named) if path]


def is_data_there(config: NeoxConfig) -> bool:
    """Whether every dataset that ``config`` trains on is in its place; what it holds is not looked at."""
    paths = list_data_paths(config)
    return bool(paths) and all(os.path.isfile(path / MANIFEST_NAME) or is_pair(path) for path in paths)


def _identify_set(path: Path) -> str:
    """Digest of one set of a blend; .bin/.idx files are trained on whole there."""
    if not is_pair(path):
        return load_manifest(path).digest
    return sha256_json(_describe_pair(path))


def _identify_pair(prefix: Path, config: NeoxConfig) -> dict[str, str]:
    content = _describe_pair(prefix) | {"split": config.split}
    return {"dataset": sha256_json(content), "tokenizer": digest_tokenizer(config)}


def digest_tokenizer(config: NeoxConfig) -> str:
    """SHA-256 that changes with the tokenizer: of the files named, or of the names where they are no files."""
    kind, file = config.tokenizer_type.lower(), Path(config.vocab_file or "")
    if config.vocab_file and file.is_file():
        merges = Path(config.merge_file) if config.merge_file and kind == "gpt2bpetokenizer" else None
        return sha256_json([sha256_file(path) for path in (file, merges)]) if merges else sha256_file(file)
    if config.vocab_file and file.is_dir():
        found = [path for path in map(file.joinpath, ("tokenizer.json", "vocab.json", "merges.txt")) if path.is_file()]
        return sha256_json([sha256_file(path) for path in found])
    if kind in ("charleveltokenizer", "tiktokentokenizer"):
        return sha256_json([kind, config.vocab_file])
    if config.vocab_file:
        raise DataError(f"{file} cannot be read (No such file or directory); correct the path")
    return ""


def _describe_pair(prefix: Path) -> dict[str, str | int]:
    tokens, index = pair_paths(prefix)
    try:
        return {"index": sha256_file(index), "bytes": tokens.stat().st_size}
    except OSError as error:
        raise DataError(explain_unread(error)) from error
