"""``neox-train estimate`` as a person and the workflow call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner, Result

from neox_train.commands import estimate
from neox_train.config.layout import RunFolder
from neox_train.errors import ConfigError, DoesNotFitError
from tests.memory.plans import CASES
from tests.memory.test_stage import write_pipeline

FILES = ["--config", str(CASES / "base.yml"), "--config", str(CASES / "optimizer.yml")]


def _write_cluster(folder: Path, memory_gib: float) -> Path:
    path = folder / "cluster.yaml"
    facts = {"device": "cpu", "processes_per_node": 2, "memory_gib_per_process": memory_gib}
    path.write_text(yaml.safe_dump(facts))
    return path


def _call(*arguments: str) -> Result:
    app = typer.Typer()
    app.callback()(lambda: None)
    estimate.register(app)
    return CliRunner().invoke(app, ["estimate", *arguments])


def test_files_alone_print_the_table_and_the_verdict(tmp_path: Path) -> None:
    result = _call(*FILES, "--cluster", str(_write_cluster(tmp_path, 2.0)), "--vocab-size", "251")
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert "optimizer states" in text and "fits: a rank needs" in text and "of 2.00 GiB" in text


def test_files_alone_are_refused_in_one_sentence(tmp_path: Path) -> None:
    result = _call(*FILES, "--cluster", str(_write_cluster(tmp_path, 0.2)))
    assert isinstance(result.exception, DoesNotFitError)
    assert "base.yml + optimizer.yml does not fit" in str(result.exception)
    assert "\n" not in str(result.exception)


def test_it_takes_what_train_takes(tmp_path: Path) -> None:
    cluster = ["--cluster", str(_write_cluster(tmp_path, 2.0))]
    files = FILES[1::2]
    old = _call(*FILES, *cluster, "--vocab-size", "251")
    assert _call(*files, *cluster, "--vocab-size", "251").stdout == old.stdout
    # No number of steps is needed to count memory; the other processes and keys count.
    other = _call(*files, *cluster, "--processes", "4", "--override", "train_iters=null", "--override", "num_layers=3")
    assert other.exit_code == 0, other.exception
    assert "on 1 x 4" in other.stdout
    assert "50,257 tokens is assumed" in other.stderr and "assumed" not in old.stderr
    dataset = tmp_path / "results" / "datasets" / "text"
    write_pipeline(tmp_path)
    assert "assumed" not in _call(*files, *cluster, "--override", f"data_path={dataset}").stderr


def test_an_override_of_a_pipelines_run_is_sent_to_the_pipeline_file(tmp_path: Path) -> None:
    pipeline = write_pipeline(tmp_path)
    result = _call("tiny", "--pipeline", str(pipeline), "--override", "seed=2")
    assert f"set `overrides:` of run tiny in {pipeline}" in str(result.exception)


def test_force_lets_them_pass(tmp_path: Path) -> None:
    assert _call(*FILES, "--cluster", str(_write_cluster(tmp_path, 0.2)), "--force").exit_code == 0


def test_more_nodes_share_optimizer_states(tmp_path: Path) -> None:
    overrides = tmp_path / "zero.yml"
    overrides.write_text('{"zero_optimization": {"stage": 1}}')
    arguments = [*FILES, "--config", str(overrides), "--cluster", str(_write_cluster(tmp_path, 2.0))]
    one, eight = (_call(*arguments, "--nodes", nodes).stdout for nodes in ("1", "8"))
    assert "on 1 x 2" in one and "on 8 x 2" in eight and one != eight


def test_a_run_of_a_pipeline_leaves_marker_or_failure(tmp_path: Path) -> None:
    pipeline = write_pipeline(tmp_path)
    results = tmp_path / "results"
    arguments = ["tiny", "--pipeline", str(pipeline), "--results", str(results)]
    run = RunFolder.of(results, "tiny")
    refused = _call(*arguments, "--cluster", str(_write_cluster(tmp_path, 0.2)))
    assert isinstance(refused.exception, DoesNotFitError)
    failure = json.loads(run.failure.read_text())
    assert failure["stage"] == "estimate" and failure["subject"] == "run tiny"
    assert failure["sentence"] == str(refused.exception)
    assert run.memory_json.exists() and not run.estimated.exists()
    accepted = _call(*arguments, "--cluster", str(_write_cluster(tmp_path, 2.0)))
    assert accepted.exit_code == 0
    assert run.estimated.exists() and not run.failure.exists()


@pytest.mark.parametrize("arguments", [[], ["tiny", *FILES], ["tiny"]])
def test_wrong_combinations_of_arguments_name_the_right_ones(arguments: list[str], tmp_path: Path) -> None:
    result = _call(*arguments, "--cluster", str(_write_cluster(tmp_path, 2.0)))
    assert isinstance(result.exception, ConfigError)
    assert "--pipeline" in str(result.exception)


def test_what_convert_would_refuse_is_told_before_the_training(tmp_path: Path) -> None:
    other = tmp_path / "base.yml"
    other.write_text((CASES / "base.yml").read_text().replace('"pos_emb": "rotary"', '"pos_emb": "none"'))
    cluster = ["--cluster", str(_write_cluster(tmp_path, 2.0))]
    told = [_call(*files, *cluster).stderr for files in (FILES, ["--config", str(other), *FILES[2:]])]
    assert ["convert will refuse it" in text for text in told] == [False, True]
