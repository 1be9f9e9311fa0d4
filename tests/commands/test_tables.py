"""What a table of the terminal shows of text in brackets."""

from __future__ import annotations

import pytest

from neox_train.cluster.check import fail
from neox_train.commands.doctor import _show
from neox_train.errors import install_extra


def test_an_extra_in_brackets_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    _show([fail("Slurm plugin", "none", install_extra("slurm"))], "doctor [bold]")
    out = capsys.readouterr().out
    assert "pip install -e '.[slurm]'" in out and "doctor [bold]" in out
