"""Short ways to write a file and to read a configuration stacked on the tiny model of the cases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from neox_train.config.load import load_config
from neox_train.config.schema import NeoxConfig
from neox_train.errors import ConfigError

CASES = Path(__file__).resolve().parent.parent / "cases"
TINY = (CASES / "base.yml", CASES / "optimizer.yml")


def load_tiny(**overrides: object) -> NeoxConfig:
    """The tiny model with keys laid over it."""
    world_size = overrides.pop("processes", None)
    return load_config(TINY, overrides=overrides, world_size=world_size)  # type: ignore[arg-type]


def refuse_tiny(**overrides: object) -> str:
    """The sentence with which keys laid over the tiny model are refused."""
    return refuse(lambda: load_tiny(**overrides))


def refuse(action: Callable[[], object]) -> str:
    """The one sentence an action is refused with."""
    with pytest.raises(ConfigError) as caught:
        action()
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence
