"""What a person wants to see of a dataset: counts, document lengths, a sample of its text."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from neox_train.data.manifest import load_manifest
from neox_train.data.store import TokenStore
from neox_train.data.tokenizer import load_tokenizer

_BAR_WIDTH = 40


def describe_dataset(folder: Path, *, samples: int, sample_tokens: int) -> str:
    """Text page of a dataset: splits, length histogram, and the start of ``samples`` documents of each split."""
    manifest = load_manifest(folder)
    tokenizer = load_tokenizer(Path(folder) / "tokenizer.json", manifest.eod_token)
    lines = [
        f"{folder}  digest {manifest.digest[:12]}",
        f"vocabulary {manifest.vocab_size}, stored as {manifest.dtype}, documents end with {manifest.eod_token}",
    ]
    for name, split in manifest.splits.items():
        store = TokenStore.open(folder, name)
        per_token = f", {split.bytes / split.tokens:.2f} bytes a token" if split.tokens else ""
        lines += ["", f"{name}: {split.documents} documents, {split.tokens} tokens, {split.bytes} bytes{per_token}"]
        lines += _draw_lengths(np.diff(store.document_offsets))
        for index in range(min(samples, store.num_documents)):
            ids = store.document(index)[:sample_tokens]
            lines.append(f"  document {index}: {tokenizer.decode(ids.tolist())!r}")
    return "\n".join(lines)


def _draw_lengths(lengths: np.ndarray) -> list[str]:
    """Bars of how many documents have how many tokens, by powers of two."""
    if not len(lengths):
        return []
    counts = np.bincount(np.floor(np.log2(lengths)).astype(int))
    first = int(np.flatnonzero(counts)[0])
    return [
        f"  {2**power:>10} to {2 ** (power + 1) - 1:>10} tokens {count:>9} "
        + "#" * int(np.ceil(_BAR_WIDTH * count / counts.max()))
        for power, count in enumerate(counts)
        if power >= first
    ]
