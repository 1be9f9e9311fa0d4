"""The commands `evaluate` and `report` on a results folder of the real layout."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from neox_train.commands.evaluate import evaluate
from neox_train.commands.report import report
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.config.load import load_config, write_config
from neox_train.errors import UserError
from neox_train.files import read_json
from tests.evaluation.conftest import TEXTS, build_dataset, train_tokenizer

PIPELINE = """
datasets:
  tiny:
    source: {kind: files, files: [none.txt]}
    tokenizer: {train: bpe, vocab_size: 280}
runs:
  one: {config: [base.yml], dataset: tiny}
  two: {config: [base.yml], dataset: tiny}
evaluation: {split: test, continuations: 1, continuation_tokens: 8}
"""


@pytest.fixture
def pipeline(tmp_path: Path, cases: Path, export: Callable[..., Path]) -> Path:
    file = tmp_path / "tiny.yaml"
    file.write_text(PIPELINE, encoding="utf-8")
    build_dataset(DatasetFolder.of(tmp_path, "tiny").path, train_tokenizer(), TEXTS)
    for name in ("one", "two"):
        config = load_config([cases / "base.yml", cases / "optimizer.yml"], world_size=1)
        write_config(config.with_vocab_size(280), RunFolder.of(tmp_path, name).config_file)
    export(RunFolder.of(tmp_path, "one").hf)
    return file


def test_evaluate_then_report(pipeline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    evaluate("one", pipeline=pipeline, results=tmp_path)
    scores = read_json(RunFolder.of(tmp_path, "one").evaluation)
    assert f"{scores['tasks']['held_out']['bits_per_byte']:.4f} bits per byte" in capsys.readouterr().out
    report(pipeline=pipeline, results=tmp_path)
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert f"{scores['tasks']['held_out']['bits_per_byte']:.3f}" in page
    assert "Not evaluated yet: two." in page


def test_a_run_outside_a_pipeline_is_measured_on_its_own_dataset(
    pipeline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    evaluate("one", pipeline=pipeline, results=tmp_path)
    wanted = read_json(RunFolder.of(tmp_path, "one").evaluation)["tasks"]["held_out"]
    run = RunFolder(tmp_path / "alone")
    shutil.copytree(RunFolder.of(tmp_path, "one").hf, run.hf)
    config = load_config([RunFolder.of(tmp_path, "one").config_file])
    data = str(DatasetFolder.of(tmp_path, "tiny").path)
    write_config(config.model_copy(update={"data_path": data}), run.config_file)
    evaluate(None, run_dir=run.path)
    assert "alone: " in capsys.readouterr().out
    assert read_json(run.evaluation)["tasks"]["held_out"] == wanted
    for wrong in ({"run": "one", "run_dir": run.path}, {"run": None}, {"run": None, "run_dir": tmp_path / "nowhere"}):
        with pytest.raises(UserError, match="--run-dir"):
            evaluate(**wrong)


def test_a_run_without_export_leaves_its_failure(pipeline: Path, tmp_path: Path):
    with pytest.raises(UserError, match="neox-train convert"):
        evaluate("two", pipeline=pipeline, results=tmp_path)
    failure = read_json(RunFolder.of(tmp_path, "two").failure)
    assert failure["stage"] == "evaluate" and failure["command"].startswith("neox-train evaluate two --pipeline")
    report(pipeline=pipeline, results=tmp_path)
    assert "holds no exported model" in (tmp_path / "report" / "index.html").read_text(encoding="utf-8")


def test_a_run_without_configuration_is_told_to_estimate(pipeline: Path, tmp_path: Path):
    RunFolder.of(tmp_path, "two").config_file.unlink()
    with pytest.raises(UserError, match=r"config.yml is missing; run `neox-train estimate two` first"):
        evaluate("two", pipeline=pipeline, results=tmp_path)


def test_an_unknown_run_makes_no_folder(pipeline: Path, tmp_path: Path):
    with pytest.raises(UserError, match="one, two"):
        evaluate("three", pipeline=pipeline, results=tmp_path)
    assert not RunFolder.of(tmp_path, "three").path.exists()
