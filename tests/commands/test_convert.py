"""``neox-train convert`` before anything is read."""

from __future__ import annotations

from pathlib import Path

import typer
from typer.testing import CliRunner

from neox_train.commands.convert import register
from neox_train.errors import ConfigError


def test_a_folder_that_is_no_runs_stays_as_it_is(tmp_path: Path) -> None:
    app = typer.Typer()
    register(app)
    result = CliRunner().invoke(app, ["--run-dir", str(tmp_path)])
    assert isinstance(result.exception, ConfigError)
    assert "is no run's folder (no config.yml)" in str(result.exception)
    assert list(tmp_path.iterdir()) == []
