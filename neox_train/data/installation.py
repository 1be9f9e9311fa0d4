"""Putting a dataset's files into place: built in a scratch folder, the old ones staying until all is there."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from neox_train import __version__
from neox_train.data.dataset_tokenizer import list_tokenizer_files
from neox_train.data.manifest import Manifest, Split, make_manifest
from neox_train.data.shards import store_dtype
from neox_train.data.sources import SOURCES_NAME
from neox_train.files import make_folder, storage_errors

if TYPE_CHECKING:
    from neox_train.config.layout import DatasetFolder
    from neox_train.data.tokenizer import TextTokenizer

_SCRATCH = ".building"


@contextmanager
def scratch_folder(folder: DatasetFolder) -> Iterator[DatasetFolder]:
    """Yield an empty folder inside ``folder``; it is removed at the end, with whatever a failure left in it."""
    scratch = replace(folder, path=folder.path / _SCRATCH)
    shutil.rmtree(scratch.path, ignore_errors=True)
    make_folder(scratch.path)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch.path, ignore_errors=True)


def install_dataset(scratch: DatasetFolder, folder: DatasetFolder, manifest: Manifest) -> None:
    """Move the built files into place. The old marker and manifest go first, the new manifest comes last: none vouches
    falsely.
    """
    tokenizers = [path.name for path in list_tokenizer_files(scratch)]
    names = [*tokenizers, SOURCES_NAME, *(shard.file for shard in manifest.shards())]
    with storage_errors(folder.path):
        folder.tokenized.unlink(missing_ok=True)
        folder.manifest.unlink(missing_ok=True)
        folder.sentencepiece.unlink(missing_ok=True)
        remove_tokens(folder)
    try:
        with storage_errors(folder.path):
            for name in names:
                (scratch.path / name).replace(folder.path / name)
        manifest.write(folder.path)
    except BaseException:
        for name in names:
            with suppress(OSError):
                (folder.path / name).unlink(missing_ok=True)
        raise


def remove_tokens(folder: DatasetFolder, *, keep: str | None = None) -> None:
    """Remove the tokens of earlier builds, and of plans other than that whose folder is ``keep``."""
    with storage_errors(folder.path):
        for old in folder.path.glob("tokens-*"):
            if old.is_dir() and old.name != keep:
                shutil.rmtree(old)
            elif not old.is_dir():
                old.unlink()


def describe_tokens(
    tokenizer: TextTokenizer, tokenizer_sha256: str, splits: dict[str, Split], **facts: Any
) -> Manifest:
    """The manifest of tokens that ``tokenizer`` made here and now; ``facts`` are its other fields."""
    return make_manifest(
        vocab_size=tokenizer.vocab_size,
        dtype=store_dtype(tokenizer.vocab_size).name,
        eod_token=tokenizer.eod_token,
        eod_id=tokenizer.eod_id,
        tokenizer_sha256=tokenizer_sha256,
        splits=splits,
        provenance=describe_origin(tokenizer.library),
        **facts,
    )


def describe_origin(library: str) -> dict[str, Any]:
    """When, where and with which versions the dataset was made; ``library`` is the one of its tokenizer."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": platform.node(),
        "python": platform.python_version(),
        "packages": {"neox-train": __version__}
        | {name: version(name) for name in ("tokenizers", "gigatoken", "h5py", "numpy", library)},
    }
