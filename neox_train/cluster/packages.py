"""Packages that a configuration needs, looked for where its ranks will run."""

from __future__ import annotations

from importlib.util import find_spec

from neox_train.config.cluster import Cluster
from neox_train.config.conflict import name_places
from neox_train.config.fp8 import uses_transformer_engine
from neox_train.config.schema import NeoxConfig
from neox_train.errors import ConfigError, install_extra


def require_packages(config: NeoxConfig, cluster: Cluster) -> None:
    """Raise ConfigError where ranks of this environment would miss a package; those of Slurm have their own."""
    if cluster.executor != "local":
        return
    needed = {
        "use_bnb_optimizer": ("bitsandbytes", "bnb", config.use_bnb_optimizer),
        "te_mha": ("transformer_engine", "te", uses_transformer_engine(config) and cluster.device == "cuda"),
    }
    for key, (package, extra, is_needed) in needed.items():
        if is_needed and find_spec(package) is None:
            place = name_places(config.places, key)
            named = key if extra == "bnb" else "te_* keys"
            raise ConfigError(
                (f"{place}: " if place else "") + f"{named} need the package {package}, which is not installed here; "
                f"run {install_extra(extra)}, or remove what asks for it"
            )
