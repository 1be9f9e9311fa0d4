"""Cluster profiles by name, folder or file."""

from __future__ import annotations

from pathlib import Path

from neox_train.config.cluster import Cluster, load_cluster
from neox_train.errors import ConfigError

PROFILES = Path("cluster_profiles")


def find_profile(text: str) -> tuple[Path, Path | None]:
    """The cluster file of a profile (its folder, its name, or the file) and Snakemake's config.yaml beside it.

    Raises ConfigError naming the profiles there are.
    """
    for path in (Path(text), PROFILES / text):
        if path.is_file():
            return path, None
        if (path / "cluster.yaml").is_file():
            return path / "cluster.yaml", path / "config.yaml"
    there = sorted(file.parent.name for file in PROFILES.glob("*/cluster.yaml"))
    raise ConfigError(f"no profile {text}; {PROFILES} has {', '.join(there) or 'none'}")


def load_profile(text: str) -> Cluster:
    """The facts of a profile; raises ConfigError where there is none."""
    path, _ = find_profile(text)
    return load_cluster(path)
