"""Packages that a configuration needs, looked for where its ranks will run."""

from __future__ import annotations

from importlib.util import find_spec

from neox_train.config.cluster import Cluster
from neox_train.config.conflict import lead
from neox_train.config.fp8 import uses_transformer_engine
from neox_train.config.schema import NeoxConfig
from neox_train.errors import ConfigError, install_extra


def require_packages(config: NeoxConfig, cluster: Cluster) -> None:
    """Raise ConfigError where ranks of this environment would miss a package; those of Slurm have their own."""
    if cluster.executor != "local":
        return
    if config.use_bnb_optimizer:
        _require(config, "bitsandbytes", "bnb", "use_bnb_optimizer", "use_bnb_optimizer")
    if uses_transformer_engine(config) and cluster.device == "cuda":
        _require(config, "transformer_engine", "te", "te_* keys", "te_mha")


def _require(config: NeoxConfig, package: str, extra: str, named: str, key: str) -> None:
    if find_spec(package) is None:
        sentence = (
            f"{named} need the package {package}, which is not installed here; run {install_extra(extra)}, or remove "
            "what asks for it"
        )
        raise ConfigError(lead(config.places, sentence, key))
