"""The estimate stage: the files of a run, the marker, the refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.config.load import load_config
from neox_train.config.pipeline import Pipeline, load_pipeline
from neox_train.config.schema import NeoxConfig
from neox_train.data.manifest import Split, make_manifest
from neox_train.errors import CheckpointError, ConfigError, DataError, DoesNotFitError, NotBuiltError
from neox_train.files import sha256_file
from neox_train.memory.stage import estimate_run, require_passed
from tests.memory.plans import CASES, VOCAB_SIZE, make_cluster


def write_pipeline(folder: Path, **overrides: Any) -> Path:
    """A pipeline file of one run, and the manifest of its dataset."""
    make_manifest(
        vocab_size=VOCAB_SIZE,
        dtype="uint16",
        eod_token="<|endoftext|>",
        eod_id=0,
        tokenizer_sha256="0" * 64,
        splits={name: Split() for name in ("train", "validation", "test")},
        sources={"files": 0, "bytes": 0, "digest": ""},
    ).write(_make(DatasetFolder.of(folder / "results", "text").path))
    path = folder / "pipeline.yaml"
    run = {
        "config": [str(CASES / "base.yml"), str(CASES / "optimizer.yml")],
        "dataset": "text",
        "overrides": overrides,
    }
    dataset = {"source": {"kind": "python_stdlib"}, "tokenizer": {"train": "bpe", "vocab_size": VOCAB_SIZE + 256}}
    path.write_text(yaml.safe_dump({"datasets": {"text": dataset}, "runs": {"tiny": run}}))
    return path


def _make(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _load(tmp_path: Path, **overrides: Any) -> tuple[Pipeline, Path, RunFolder]:
    results = tmp_path / "results"
    return load_pipeline(write_pipeline(tmp_path, **overrides)), results, RunFolder.of(results, "tiny")


def test_the_run_gets_its_configuration_estimate_picture_and_marker(tmp_path: Path) -> None:
    pipeline, results, run = _load(tmp_path)
    config, estimate = estimate_run(pipeline, "tiny", make_cluster(), results)
    assert load_config([run.config_file]) == config
    assert config.vocab_size == VOCAB_SIZE and config.world_size == 2
    record = json.loads(run.memory_json.read_text())
    assert record["run"] == "tiny" and record["verdict"] == "fits" and record["forced"] is False
    assert record["total_gib"] == estimate.total / 2**30
    marker = json.loads(run.estimated.read_text())
    assert marker["training_digest"] == config.training_digest()
    for name, digest in marker["files"].items():
        assert sha256_file(run.path / name) == digest
    assert set(marker["files"]) == {"config.yml", "memory.json", "memory.png"}


def test_repeating_writes_the_same_bytes(tmp_path: Path) -> None:
    pipeline, results, run = _load(tmp_path)
    estimate_run(pipeline, "tiny", make_cluster(), results)
    first = {path.name: path.read_bytes() for path in run.path.iterdir()}
    estimate_run(pipeline, "tiny", make_cluster(), results)
    assert {path.name: path.read_bytes() for path in run.path.iterdir()} == first


def test_a_run_that_does_not_fit_leaves_its_estimate_but_no_marker(tmp_path: Path) -> None:
    pipeline, results, run = _load(tmp_path)
    estimate_run(pipeline, "tiny", make_cluster(), results)
    _, estimate = estimate_run(pipeline, "tiny", make_cluster(memory_gib_per_process=0.3), results)
    assert not run.estimated.exists(), "the marker of the estimate before must go"
    record = json.loads(run.memory_json.read_text())
    assert record["verdict"] == "does_not_fit" and record["fraction"] > 1 and record["remedies"]
    assert run.memory_png.exists() and run.config_file.exists()
    with pytest.raises(
        DoesNotFitError, match=r"run tiny does not fit: a rank needs .* of the 307 MiB it may use"
    ) as raised:
        require_passed(estimate, subject="run tiny", force=False)
    assert raised.value.exit_code == 3 and "--force" in str(raised.value)


def test_force_opens_the_gate_and_is_recorded(tmp_path: Path) -> None:
    pipeline, results, run = _load(tmp_path)
    _, estimate = estimate_run(pipeline, "tiny", make_cluster(memory_gib_per_process=0.3), results, force=True)
    require_passed(estimate, subject="run tiny", force=True)
    marker = json.loads(run.estimated.read_text())
    assert marker["forced"] is True and marker["verdict"] == "does_not_fit"
    assert json.loads(run.memory_json.read_text())["forced"] is True


def test_a_tight_run_passes(tmp_path: Path) -> None:
    pipeline, results, run = _load(tmp_path)
    cluster = make_cluster(gate={"warn_above": 0.01, "refuse_above": 0.95})
    _, estimate = estimate_run(pipeline, "tiny", cluster, results)
    require_passed(estimate, subject="run tiny", force=False)
    assert estimate.verdict == "tight" and estimate.remedies
    assert json.loads(run.estimated.read_text())["verdict"] == "tight"


@pytest.mark.parametrize(
    ("overrides", "error", "words"),
    [
        ({"precision": "fp16"}, ConfigError, "precision: bfloat16"),
        ({"moe_num_experts": 8}, NotBuiltError, "moe_num_experts"),
    ],
)
def test_what_cannot_be_trained_stops_here(
    overrides: dict[str, Any], error: type[Exception], words: str, tmp_path: Path
) -> None:
    pipeline, results, run = _load(tmp_path, **overrides)
    with pytest.raises(error, match=words):
        estimate_run(pipeline, "tiny", make_cluster(), results)
    assert not run.estimated.exists() and not run.config_file.exists()


def test_a_missing_dataset_is_named(tmp_path: Path) -> None:
    pipeline, results, _ = _load(tmp_path)
    DatasetFolder.of(results, "text").manifest.unlink()
    with pytest.raises(DataError, match=r"datasets/text"):
        estimate_run(pipeline, "tiny", make_cluster(), results)


def test_a_run_that_is_not_accepted_keeps_its_files(tmp_path: Path) -> None:
    pipeline, results, run = _load(tmp_path)
    estimate_run(pipeline, "tiny", make_cluster(), results)
    before = {file: file.read_bytes() for file in (run.config_file, run.memory_json, run.memory_png)}

    def refuse(asked: RunFolder, config: NeoxConfig) -> None:
        raise CheckpointError(f"{asked.name}: hidden_size is {config.hidden_size} now")

    pipeline = load_pipeline(write_pipeline(tmp_path, hidden_size=128))
    with pytest.raises(CheckpointError, match="hidden_size is 128 now"):
        estimate_run(pipeline, "tiny", make_cluster(), results, accept=refuse)
    assert {file: file.read_bytes() for file in before} == before
