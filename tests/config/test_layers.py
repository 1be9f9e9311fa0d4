from __future__ import annotations

from typing import Any

import pytest

from neox_train.config.layers import derive_ffn_width, expand_attention
from tests.config.files import refuse, refuse_tiny


@pytest.mark.parametrize(
    ("written", "layers", "expected"),
    [
        (None, 2, ["global", "global"]),
        ([[["flash"], "all"]], 3, ["flash"] * 3),
        ([[["local", "global"], "all"]], 3, ["local", "global", "local"]),
        ([[["global", "local"], 2]], 4, ["global", "local", "global", "local"]),
        ([[["global"], 1], [["flash"], 2]], 3, ["global", "flash", "flash"]),
        (["global", "flash"], 2, ["global", "flash"]),
    ],
)
def test_patterns(written: list[Any] | None, layers: int, expected: list[str]) -> None:
    assert expand_attention(written, layers) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ([[["global"], 3]], "gives 3 layers, num_layers is 2"),
        (["global", "glob"], "names 'glob'"),
        ([["global"], "all"], "a list of kinds and a count"),
        ([[["global"], True]], "a list of kinds and a count"),
        ([[[], "all"]], "a list of kinds and a count"),
        ([[["global"], 0]], "a list of kinds and a count"),
        ([], "gives 0 layers"),
    ],
)
def test_bad_patterns(written: list[Any], expected: str) -> None:
    assert expected in refuse(lambda: expand_attention(written, 2))


@pytest.mark.parametrize(
    ("arguments", "width"),
    [
        ((768, None, None, 1, "gelu"), 3072),
        ((64, 192, None, 1, "gelu"), 192),
        ((64, None, 2.5, 1, "gelu"), 160),
        ((64, 100, None, 64, "gelu"), 128),
        # A Llama of width 11008: GPT-NeoX's configurations write 32768 with a multiple of 256, or three times 11008.
        ((4096, 32768, None, 256, "swiglu"), 11008),
        ((4096, 33024, None, 1, "swiglu"), 11008),
        ((192, None, None, 1, "geglu"), 256),
    ],
)
def test_width_of_the_mlp(arguments: tuple[int, int | None, float | None, int, str], width: int) -> None:
    assert derive_ffn_width(*arguments) == width


def test_two_widths_are_refused() -> None:
    assert "keep one of them" in refuse_tiny(intermediate_size=128, expansion_factor=2.0)
