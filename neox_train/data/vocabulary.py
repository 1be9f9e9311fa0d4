"""How many token ids a configuration's data have, and with which tokenizer .bin/.idx files were made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from neox_train.config.conflict import lead
from neox_train.config.layout import DatasetFolder
from neox_train.data.identity import main_path
from neox_train.data.manifest import Manifest, load_manifest
from neox_train.data.pair_files import is_pair
from neox_train.data.upstream_tokenizer import UpstreamTokenizer, find_tokenizer
from neox_train.errors import ConfigError, DataError

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig


def find_vocab_size(config: NeoxConfig) -> int:
    """Token ids of the data that ``config`` trains on; raises ConfigError or DataError where they do not say.

    A written ``vocab_size`` that a dataset folder contradicts is a ConfigError too.
    """
    path = Path(main_path(config))
    if not is_pair(path):
        size = _load_located(config, path).vocab_size
        if config.vocab_size not in (None, size):
            sentence = (
                f"`vocab_size` is {config.vocab_size}, the dataset {path} has {size} token ids and decides; "
                "remove the key, or repeat the estimate stage, which writes it"
            )
            raise ConfigError(lead(config.places, sentence, "vocab_size"))
        return size
    if config.vocab_size is not None:
        return config.vocab_size
    return find_pair_tokenizer(
        config,
        f"`data_path` {path} names .bin/.idx files, which do not say how many token ids there are",
        "set `vocab_file` to their tokenizer.json, or `vocab_size`",
    ).vocab_size


def list_unread(config: NeoxConfig) -> list[str]:
    """A sentence where ``vocab_file`` is another file than the tokenizer that a dataset folder brings with it."""
    folder = Path(main_path(config))
    own = DatasetFolder(folder).tokenizer
    if not config.vocab_file or is_pair(folder) or Path(config.vocab_file).absolute() == own.absolute():
        return []
    sentence = f"vocab_file {config.vocab_file} is not read: the dataset {folder} brings its tokenizer"
    return [lead(config.places, sentence, "vocab_file")]


def _load_located(config: NeoxConfig, path: Path) -> Manifest:
    """The manifest; an error is led by the file and line that name the folder, where they are known."""
    try:
        return load_manifest(path)
    except DataError as error:
        key = "data_path" if config.data_path else "train_data_paths"
        raise DataError(lead(config.places, str(error), key)) from error


def find_pair_tokenizer(config: NeoxConfig, reason: str, remedy: str) -> UpstreamTokenizer:
    """What the tokenizer keys stand for of .bin/.idx files; raises ConfigError("reason; remedy") without them."""
    found = find_tokenizer(config)
    if found is None:
        raise ConfigError(f"{reason}; {remedy}")
    return found
