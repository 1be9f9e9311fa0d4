"""The manifest of a checkpoint: written last, it says which files belong to it and whether they are whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from neox_train.checkpoint.folders import MANIFEST_NAME, parse_step
from neox_train.errors import CheckpointError
from neox_train.files import sha256_file, sha256_json, write_json

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class FileRecord:
    """Size and SHA-256 of one file of a checkpoint."""

    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class ParameterRecord:
    """Global shape of a parameter without vocabulary padding, and the dimension tensor parallelism cuts."""

    shape: tuple[int, ...]
    shard_dim: int | None
    is_vocabulary: bool = False
    shard_parts: int = 1
    """Equal parts along ``shard_dim`` that are each cut by themselves."""


@dataclass(frozen=True, kw_only=True)
class World:
    """Processes that wrote a checkpoint: all of them, and the data, tensor and pipeline parallel degrees."""

    size: int
    dp: int
    tp: int = 1
    pp: int = 1


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a checkpoint holds and what it was trained with."""

    step: int
    world: World
    parameters: dict[str, ParameterRecord]
    files: dict[str, FileRecord]
    digests: dict[str, str | None]
    """SHA-256 of the training-relevant configuration, the dataset and the tokenizer (``config`` ...)."""
    training_relevant: dict[str, Any]
    """The configuration keys that a resumed run may not change."""
    other_settings: dict[str, Any] = field(default_factory=dict)
    """The remaining configuration keys, so that a resume can say which of them changed."""
    final: bool = False
    format_version: int = FORMAT_VERSION

    @property
    def total_bytes(self) -> int:
        """Bytes of all files but the manifest."""
        return sum(record.bytes for record in self.files.values())


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest atomically, with a digest of itself."""
    content = asdict(manifest)
    content["digest"] = sha256_json(content)
    write_json(Path(folder) / MANIFEST_NAME, content)


def read_manifest(folder: Path) -> Manifest:
    """Read and check a manifest; CheckpointError in one sentence where it is missing, damaged or of another format."""
    manifest, problem = inspect_manifest(folder)
    if manifest is None:
        raise CheckpointError(f"{folder} is no complete checkpoint: {problem}; use another step or train again")
    return manifest


def inspect_manifest(folder: Path) -> tuple[Manifest | None, str | None]:
    """The manifest, or None and the reason why it does not count."""
    path = Path(folder) / MANIFEST_NAME
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if text else None
    except FileNotFoundError:
        return None, f"{MANIFEST_NAME} is missing (the save did not finish)"
    except (UnicodeDecodeError, json.JSONDecodeError):
        return None, f"{MANIFEST_NAME} is not JSON (cut or overwritten)"
    if content is None:
        return None, f"{MANIFEST_NAME} is empty (as after a power cut)"
    if not isinstance(content, dict) or "format_version" not in content:
        return None, f"{MANIFEST_NAME} is not a checkpoint's manifest"
    version = content["format_version"]
    if version != FORMAT_VERSION:
        return None, f"{MANIFEST_NAME} has format_version {version}, this program reads {FORMAT_VERSION}"
    if content.pop("digest", None) != sha256_json(content):
        return None, f"{MANIFEST_NAME} does not match its own digest (its bytes changed after saving)"
    manifest = _parse_manifest(content)
    if parse_step(Path(folder).name) not in (manifest.step, None):
        return None, f"{MANIFEST_NAME} is that of step {manifest.step} (the folder was renamed)"
    return manifest, None


def verify_checkpoint(folder: Path, *, deep: bool = True) -> list[str]:
    """Problems of a checkpoint, none where it is complete.

    Shallow compares presence and sizes; ``deep`` reads every byte and compares SHA-256 too. Nothing is changed.
    """
    manifest, problem = inspect_manifest(folder)
    if manifest is None:
        return [problem or ""]
    problems = [inspect_file(folder, name, record, deep=deep) for name, record in sorted(manifest.files.items())]
    return [problem for problem in problems if problem is not None]


def inspect_file(folder: Path, name: str, record: FileRecord, *, deep: bool) -> str | None:
    """Why one file of a checkpoint does not count; None where it does."""
    path = Path(folder) / name
    try:
        size = path.stat().st_size
        if size != record.bytes:
            return f"{name} has {size} bytes, the manifest says {record.bytes}"
        if deep and sha256_file(path) != record.sha256:
            return f"{name} does not match its SHA-256 (its bytes changed after saving)"
    except FileNotFoundError:
        return f"{name} is missing"
    except OSError as error:
        return f"{name} cannot be read ({error.strerror})"
    return None


def _parse_manifest(content: Mapping[str, Any]) -> Manifest:
    parameters = {
        name: ParameterRecord(**{**record, "shape": tuple(record["shape"])})
        for name, record in content["parameters"].items()
    }
    files = {name: FileRecord(**record) for name, record in content["files"].items()}
    return Manifest(**{**content, "world": World(**content["world"]), "parameters": parameters, "files": files})
