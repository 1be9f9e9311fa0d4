"""Names of .bin/.idx token files, which a path without the suffix stands for."""

from __future__ import annotations

import os
from pathlib import Path


def pair_paths(prefix: Path) -> tuple[Path, Path]:
    """The tokens' file and the index's of a prefix."""
    return prefix.with_name(prefix.name + ".bin"), prefix.with_name(prefix.name + ".idx")


def is_pair(prefix: Path) -> bool:
    """Whether ``prefix`` names .bin/.idx files rather than a dataset folder."""
    # Not Path's own tests: a folder that may not be entered would raise here, and what opens the data explains it.
    return not os.path.isdir(prefix) and os.path.isfile(pair_paths(prefix)[1])


def explain_unread(error: OSError) -> str:
    """The sentence for a file of a pair that cannot be read."""
    is_absent = isinstance(error, FileNotFoundError | NotADirectoryError)
    remedy = "correct the path, which goes without .bin" if is_absent else "give read permission for it and its folder"
    return f"{error.filename} cannot be read ({error.strerror}); {remedy}"
