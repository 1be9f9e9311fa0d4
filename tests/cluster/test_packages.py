"""Packages that are missing are told before a rank starts."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from neox_train.cluster import packages
from neox_train.cluster.packages import require_packages
from neox_train.config.cluster import Cluster
from neox_train.errors import ConfigError
from tests.config.files import load_tiny

HERE = Cluster(executor="local")


def without(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(packages, "find_spec", lambda name: None if name == missing else find("json"))


@pytest.mark.parametrize(
    ("keys", "cluster", "package", "extra"),
    [
        ({"use_bnb_optimizer": True}, HERE, "bitsandbytes", "bnb"),
        (
            {"te_mha": True, "precision": "bfloat16"},
            HERE.model_copy(update={"device": "cuda"}),
            "transformer_engine",
            "te",
        ),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    keys: dict[str, Any], cluster: Cluster, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_tiny(**keys)
    without(monkeypatch, package)
    with pytest.raises(
        ConfigError, match=rf"^override {next(iter(keys))}: .*{package}.*pip install -e '\.\[{extra}\]'"
    ):
        require_packages(config, cluster)
    require_packages(load_tiny(), cluster)
    require_packages(config, cluster.model_copy(update={"executor": "slurm"}))
    without(monkeypatch, "another")
    require_packages(config, cluster)
