"""``neox-train train`` before a rank starts."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from neox_train.checkpoint.manifest import Manifest, World, write_manifest
from neox_train.checkpoint.table import build_table
from neox_train.commands.by_hand import LOCAL, find_run_folder
from neox_train.commands.train import register
from neox_train.config.architecture import Architecture
from neox_train.config.cluster import load_cluster
from neox_train.config.layout import RunFolder
from neox_train.config.load import write_config
from neox_train.config.run import resolve_files
from neox_train.config.support import require_trainable
from neox_train.data.identity import identify_data
from neox_train.errors import DoesNotFitError, UserError
from tests.config.files import TINY
from tests.training.synthetic import CASES, resolve, write_dataset


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


def test_a_mistake_of_a_blend_is_told_before_anything_starts(tmp_path: Path) -> None:
    app = typer.Typer()
    register(app)
    dataset = write_dataset(tmp_path / "data", train_tokens=500, validation_tokens=200)
    file = tmp_path / "more.yml"
    file.write_text(f"data_path: {dataset.path}\ntrain_data_paths: [{dataset.path}, {tmp_path}/gone]\n")
    result = CliRunner().invoke(app, [*map(str, TINY), str(file), "--run-dir", str(tmp_path / "run")])
    assert isinstance(result.exception, UserError) and result.exception.exit_code == 2
    assert f"{tmp_path}/gone/manifest.json cannot be read" in str(result.exception)
    assert not (tmp_path / "run" / "config.yml").exists()


def test_a_refused_command_leaves_a_trained_runs_folder_as_it_was(tmp_path: Path) -> None:
    app = typer.Typer()
    register(app)
    dataset = write_dataset(tmp_path / "data", train_tokens=500, validation_tokens=200)
    run = RunFolder(tmp_path / "run")
    config = resolve(dataset, run)
    write_config(config, run.config_file)
    write_manifest(
        run.checkpoints / "step_00000020",
        Manifest(
            step=20,
            world=World(size=1, dp=1),
            parameters=build_table(Architecture.from_config(config)),
            files={},
            digests=dict(identify_data(config)),
            training_relevant=config.training_relevant(),
        ),
    )
    run.trained.write_text("{}")
    files = [str(CASES / "base.yml"), str(CASES / "optimizer.yml"), "--run-dir", str(run.path)]
    options = [
        "--processes",
        "1",
        "--override",
        f"data_path={dataset.path}",
        "--override",
        "make_vocab_size_divisible_by=16",
    ]
    before = snapshot(tmp_path)
    for change in ("weight_decay=0.2", "hidden_size=128", "moe_num_experts=8", "model_parallel_size=3"):
        result = CliRunner().invoke(app, [*files, *options, "--override", change])
        assert isinstance(result.exception, UserError), result.exception
        assert change.split("=")[0] in str(result.exception)
        assert snapshot(tmp_path) == before, change


def test_a_training_that_does_not_fit_is_refused_before_it_starts(tmp_path: Path) -> None:
    app = typer.Typer()
    register(app)
    dataset = write_dataset(tmp_path / "data", train_tokens=500, validation_tokens=200)
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("device: cpu\nprocesses_per_node: 2\nmemory_gib_per_process: 0.2\n")
    files = [str(CASES / "base.yml"), str(CASES / "optimizer.yml"), "--cluster", str(cluster)]
    run = ["--run-dir", str(tmp_path / "run"), "--override", f"data_path={dataset.path}"]
    result = CliRunner().invoke(app, [*files, *run])
    assert isinstance(result.exception, DoesNotFitError)
    assert "of the 205 MiB it may use by `memory_gib_per_process`" in str(result.exception)
    assert "--force lets it pass" in str(result.exception)
    assert not (tmp_path / "run").exists()


def test_the_readmes_two_keys_are_all_that_the_demos_file_lacks(repository: Path, tmp_path: Path) -> None:
    block = (repository / "README.md").read_text().split("this is a whole `my.yml`:\n\n")[1].split("\n\n")[0]
    mine = tmp_path / "my.yml"
    mine.write_text(textwrap.dedent(block))
    facts = load_cluster(repository / LOCAL)
    config = resolve_files([repository / "configs" / "demo" / "base.yml", mine], facts)
    require_trainable(config, facts)
    assert config.data_path == "results/datasets/stdlib"
    assert find_run_folder(None, config.save).path == Path("results/runs/mine")


def snapshot(folder: Path) -> dict[Path, tuple[int, bytes]]:
    """Time of change and content of every file but locks, which are empty."""
    files = [file for file in folder.rglob("*") if file.is_file() and not file.name.endswith(".lock")]
    return {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in files}


def test_more_processes_than_the_machine_holds_are_refused_before_any_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # No cluster file: nothing but the machine says what a process may use.
    app = typer.Typer()
    register(app)
    dataset = write_dataset(tmp_path / "data", train_tokens=500, validation_tokens=200)
    data = ["--override", f"data_path={dataset.path}"]
    options = [*map(str, TINY), "--run-dir", str(tmp_path / "run"), "--processes", "100000", *data]
    result = CliRunner().invoke(app, options)
    assert isinstance(result.exception, DoesNotFitError) and result.exception.exit_code == 3
    assert "of the 0 MiB that are its share of this machine" in str(result.exception)
    (tmp_path / "cluster.yaml").write_text("memory_gib_per_process: 2\n")
    result = CliRunner().invoke(app, [*options, "--cluster", "cluster.yaml"])
    assert isinstance(result.exception, DoesNotFitError)
    assert "run run does not fit: 100000 processes need" in str(result.exception)
    assert "start at most" in str(result.exception) and not (tmp_path / "run").exists()
