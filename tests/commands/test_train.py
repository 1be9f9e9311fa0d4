"""``neox-train train`` before a rank starts."""

from __future__ import annotations

from pathlib import Path

import typer
from typer.testing import CliRunner

from neox_train.commands.train import register
from tests.config.files import TINY
from tests.training.synthetic import write_dataset


def test_what_is_not_built_is_refused_with_its_line_before_anything_starts(tmp_path: Path) -> None:
    app = typer.Typer()
    register(app)
    dataset = write_dataset(tmp_path / "data", train_tokens=500, validation_tokens=200)
    file = tmp_path / "more.yml"
    file.write_text(f"data_path: {dataset.path}\nmoe_num_experts: 8\n")
    result = CliRunner().invoke(app, [*map(str, TINY), str(file), "--run-dir", str(tmp_path / "run")])
    assert result.exit_code != 0
    assert f"{file}, line 2: moe_num_experts: 8" in str(result.exception)
    assert not (tmp_path / "run" / "logs").exists()
