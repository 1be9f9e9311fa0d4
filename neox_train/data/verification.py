"""Verifying a dataset against its manifest: hashes, ranges, document boundaries."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from neox_train.data.manifest import Manifest, Shard, content_digest, load_manifest
from neox_train.data.store import MappedShard, map_shard
from neox_train.errors import DataError
from neox_train.files import sha256_file

_CHUNK_TOKENS = 1 << 24


def verify_dataset(folder: Path) -> list[str]:
    """Every difference between a dataset's files and its manifest, one sentence each; raises DataError without one."""
    folder = Path(folder)
    manifest = load_manifest(folder)
    problems = _check_totals(manifest)
    try:
        if sha256_file(folder / "tokenizer.json") != manifest.tokenizer_sha256:
            problems.append("tokenizer.json is not the one the tokens were made with")
    except OSError as error:
        problems.append(f"tokenizer.json cannot be read ({error.strerror})")
    for shard in manifest.shards():
        try:
            mapped = map_shard(folder, shard, manifest)
        except DataError as error:
            problems.append(str(error))
            continue
        if sha256_file(folder / shard.file) != shard.sha256:
            problems.append(f"{shard.file}: the bytes are not those that were written (SHA-256 differs)")
        problems.extend(f"{shard.file}: {problem}" for problem in _check_shard(mapped, shard, manifest))
    return problems


def _check_totals(manifest: Manifest) -> list[str]:
    problems = []
    for name, split in manifest.splits.items():
        for what in ("documents", "tokens"):
            total = sum(getattr(shard, what) for shard in split.shards)
            if total != getattr(split, what):
                problems.append(f"manifest.json: split {name} says {getattr(split, what)} {what}, its shards {total}")
    digest = content_digest(
        tokenizer_sha256=manifest.tokenizer_sha256,
        vocab_size=manifest.vocab_size,
        dtype=manifest.dtype,
        eod_id=manifest.eod_id,
        splits=manifest.splits,
    )
    if digest != manifest.digest:
        problems.append("manifest.json: the digest is not that of its contents")
    return problems


def _check_shard(mapped: MappedShard, shard: Shard, manifest: Manifest) -> list[str]:
    offsets = mapped.document_offsets
    if offsets[0] != 0 or offsets[-1] != shard.tokens or (np.diff(offsets) < 1).any():
        return ["the document offsets do not rise from 0 to the number of tokens"]
    problems = []
    largest, closing = 0, 0
    for start in range(0, shard.tokens, _CHUNK_TOKENS):
        tokens = mapped.tokens[start : start + _CHUNK_TOKENS]
        largest = max(largest, int(tokens.max()))
        closing += int((tokens == manifest.eod_id).sum())
    if largest >= manifest.vocab_size:
        problems.append(f"id {largest} is outside the vocabulary of {manifest.vocab_size}")
    if closing != shard.documents or (mapped.tokens[offsets[1:] - 1] != manifest.eod_id).any():
        problems.append(f"{closing} end-of-document tokens do not close its {shard.documents} documents one each")
    return problems
