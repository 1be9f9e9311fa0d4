from __future__ import annotations

import math

import pytest
import torch

from neox_train.errors import ConfigError
from neox_train.model.sinusoidal import Sinusoidal


def test_values_are_those_of_the_formula() -> None:
    table = Sinusoidal(8).table(50, device=torch.device("cpu"), dtype=torch.float32)
    for position in (0, 1, 49):
        angles = [position / 10_000 ** (2 * pair / 8) for pair in range(4)]
        wanted = [*map(math.sin, angles), *map(math.cos, angles)]
        assert table[position].tolist() == pytest.approx(wanted, abs=1e-5)


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(ConfigError, match="hidden_size is 7"):
        Sinusoidal(7)
