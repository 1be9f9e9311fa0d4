from __future__ import annotations

from pathlib import Path

import pytest

from neox_train.config.load import load_config
from neox_train.config.split import read_split
from neox_train.errors import ConfigError
from tests.config.files import TINY, load_tiny


@pytest.mark.parametrize(
    ("split", "shares"),
    [("969, 30, 1", (969, 30, 1)), ("80,30", (80, 30, 0)), ("1", (1, 0, 0)), ("0.9/0.05/0.05", (0.9, 0.05, 0.05))],
)
def test_shares_of_any_sum(split: str, shares: tuple[float, ...]) -> None:
    assert read_split(split) == shares
    assert load_tiny(split=split).split == split


@pytest.mark.parametrize(
    ("split", "words"),
    [
        ("a,b", "one to three numbers between commas"),
        ("", "one to three numbers between commas"),
        ("90,5,5,5", "4 numbers; one to three"),
        ("-1,2", "finite shares of 0 or more are wanted"),
        ("nan,1", "finite shares of 0 or more are wanted"),
        ("0,1,1", "a first number above 0, the share to train on, is wanted"),
    ],
)
def test_what_is_none_is_refused_with_its_line(split: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "data.yml"
    file.write_text(f"# data\nsplit: '{split}'\n")
    with pytest.raises(ConfigError) as refusal:
        load_config([*TINY, file])
    assert str(refusal.value).startswith(f"{file}, line 2: split is {split!r}")
    assert words in str(refusal.value)
