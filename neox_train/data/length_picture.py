"""How long a dataset's documents are, as a picture: one histogram a split, by powers of two."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from neox_train.data.manifest import load_manifest
from neox_train.data.store import TokenStore
from neox_train.files import atomic_path

_COLOUR = "#2e75b6"


def draw_lengths(folder: Path, path: Path) -> None:
    """Write a PNG: of each split, the share of its tokens that lies in documents of each length in tokens.

    Raises DataError for a folder that is no dataset, StorageError where ``path`` cannot be written.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    splits = {name: split for name, split in load_manifest(folder).splits.items() if split.documents}
    figure = Figure(figsize=(9.6, 1.2 + 1.9 * len(splits)), dpi=120, layout="constrained")
    rows = np.atleast_1d(figure.subplots(len(splits), 1, sharex=True))
    for axes, (name, split) in zip(rows, splits.items(), strict=True):
        powers, shares = count_tokens_by_length(TokenStore.open(folder, name).document_offsets)
        axes.bar(powers, shares, width=0.9, color=_COLOUR)
        axes.set_title(f"{name}: {split.documents:,} documents, {split.tokens:,} tokens", loc="left", fontsize=10)
        axes.set_ylabel("% of tokens", fontsize=8.5)
        axes.set_xticks(powers, [f"{2**power:,}" for power in powers.tolist()], rotation=30, fontsize=8)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    rows[-1].set_xlabel("length of the document in tokens, from this power of two to the next")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png")


def count_tokens_by_length(document_offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Powers of two, and the percentage of all tokens in documents at least that long and shorter than the next."""
    lengths = np.diff(document_offsets)
    powers = np.floor(np.log2(lengths)).astype(int)
    first = int(powers.min())
    tokens = np.bincount(powers - first, weights=lengths)
    return np.arange(first, first + len(tokens)), 100 * tokens / tokens.sum()
