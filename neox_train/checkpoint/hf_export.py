"""Writing a directory that ``transformers`` loads with ``from_pretrained``.

The files are written into a folder beside the destination and each finished one is recorded, so that a killed export
repeats only what is missing; the folder takes its name when all of it is there.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from neox_train.checkpoint.export_record import RECORD_NAME
from neox_train.checkpoint.hf_config import hf_config
from neox_train.checkpoint.hf_shards import (
    INDEX_NAME,
    FileRecord,
    build_index,
    describe_file,
    plan_shards,
    write_shard,
)
from neox_train.checkpoint.hf_tokenizer import TOKENIZER_FILES, TokenizerSource, write_tokenizer
from neox_train.config.architecture import Architecture
from neox_train.files import make_folder, read_json, sha256_json, storage_errors, write_json

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Export:
    """What an exported folder is made from: equal exports have equal files."""

    checkpoint: str
    """Name of the step folder."""
    manifest_sha256: str
    """SHA-256 of the checkpoint's manifest file."""
    architecture: Architecture
    tokenizer: TokenizerSource
    dtype: str = "float32"
    max_shard_bytes: int = 5 * 10**9

    def identity(self) -> dict[str, Any]:
        """JSON that is equal exactly for equal exports."""
        return {
            "format_version": FORMAT_VERSION,
            "checkpoint": self.checkpoint,
            "manifest_sha256": self.manifest_sha256,
            "architecture_sha256": sha256_json(dataclasses.asdict(self.architecture)),
            "tokenizer_sha256": self.tokenizer.sha256,
            "dtype": self.dtype,
            "max_shard_bytes": self.max_shard_bytes,
        }


def read_export(folder: Path, export: Export) -> dict[str, FileRecord] | None:
    """Files of a finished export of the same thing, all present with their sizes; None where there is no such."""
    files = _recorded_files(folder, export)
    wanted = [*_list_files(export), "config.json"]
    if not all(name in files for name in wanted):
        return None
    sizes = {name: (folder / name).stat().st_size for name in files if (folder / name).is_file()}
    return files if sizes == {name: record["bytes"] for name, record in files.items()} else None


def write_export(
    folder: Path,
    export: Export,
    weights: Callable[[], Mapping[str, torch.Tensor]],
    *,
    report: Callable[[str], None] = lambda _: None,
) -> dict[str, FileRecord]:
    """Write the export to ``folder``, replacing what is there at the end; returns its files.

    ``weights()`` gives canonical fp32 tensors and is called only when a weight file is missing. Raises NotBuiltError
    for an architecture without a Hugging Face class, StorageError where the disk refuses.
    """
    settings = hf_config(
        export.architecture, dtype=export.dtype, end_of_document_id=export.tokenizer.end_of_document_id
    )
    partial = folder.with_name(f".{folder.name}.partial")
    files = _resume_partial(partial, export)
    shards = plan_shards(export.architecture, dtype=export.dtype, max_shard_bytes=export.max_shard_bytes)
    for shard in shards:
        if shard.file in files:
            report(f"{shard.file}: already written")
            continue
        files[shard.file] = write_shard(partial, shard, weights, export.architecture, export.dtype)
        _write_record(partial, export, files)
        report(f"{shard.file}: {files[shard.file]['bytes']} bytes")
    if len(shards) > 1:
        write_json(partial / INDEX_NAME, build_index(shards, dtype=export.dtype))
    write_tokenizer(partial, export.tokenizer, max_tokens=export.architecture.max_position_embeddings)
    end = export.tokenizer.end_of_document_id
    write_json(partial / "generation_config.json", {"bos_token_id": end, "eos_token_id": end})
    write_json(partial / "config.json", settings)
    files |= {name: describe_file(partial / name) for name in _list_files(export) if name not in files}
    files["config.json"] = describe_file(partial / "config.json")
    _write_record(partial, export, files)
    _replace_folder(partial, folder)
    return files


def _list_files(export: Export) -> list[str]:
    shards = plan_shards(export.architecture, dtype=export.dtype, max_shard_bytes=export.max_shard_bytes)
    index = [INDEX_NAME] if len(shards) > 1 else []
    return [*(shard.file for shard in shards), *index, *TOKENIZER_FILES, "generation_config.json"]


def _recorded_files(folder: Path, export: Export) -> dict[str, FileRecord]:
    try:
        record = read_json(folder / RECORD_NAME)
    except ValueError:
        return {}
    if not isinstance(record, dict):
        return {}
    files = record.pop("files", {})
    return files if record == export.identity() else {}


def _write_record(folder: Path, export: Export, files: Mapping[str, FileRecord]) -> None:
    write_json(folder / RECORD_NAME, export.identity() | {"files": dict(files)})


def _resume_partial(partial: Path, export: Export) -> dict[str, FileRecord]:
    """Weight files of an interrupted export of the same thing that are still whole; anything else is removed."""
    recorded = _recorded_files(partial, export)
    whole = {
        name: record
        for name, record in recorded.items()
        if name.endswith(".safetensors") and (partial / name).is_file() and describe_file(partial / name) == record
    }
    make_folder(partial)
    with storage_errors(partial):
        for path in partial.iterdir():
            if path.name not in whole and path.name != RECORD_NAME:
                path.unlink()
    return whole


def _replace_folder(partial: Path, folder: Path) -> None:
    outgoing = folder.with_name(f".{folder.name}.old")
    with storage_errors(folder):
        shutil.rmtree(outgoing, ignore_errors=True)
        if folder.exists():
            os.replace(folder, outgoing)
        os.replace(partial, folder)
        shutil.rmtree(outgoing, ignore_errors=True)
