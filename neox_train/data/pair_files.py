"""Names of .bin/.idx token files, which a path without the suffix stands for."""

from __future__ import annotations

from pathlib import Path


def pair_paths(prefix: Path) -> tuple[Path, Path]:
    """The tokens' file and the index's of a prefix."""
    return prefix.with_name(prefix.name + ".bin"), prefix.with_name(prefix.name + ".idx")


def is_pair(prefix: Path) -> bool:
    """Whether ``prefix`` names .bin/.idx files rather than a dataset folder."""
    return not prefix.is_dir() and pair_paths(prefix)[1].is_file()
