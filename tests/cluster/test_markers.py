import hashlib
import json
from pathlib import Path

import pytest

from neox_train.checkpoint.manifest import FileRecord, Manifest, World, write_manifest
from neox_train.cluster.markers import withdraw_false_markers
from neox_train.config.layout import DatasetFolder, RunFolder


@pytest.fixture
def dataset(tmp_path: Path) -> DatasetFolder:
    folder = DatasetFolder.of(tmp_path, "words")
    folder.path.mkdir(parents=True)
    folder.tokenizer.write_text("{}")
    folder.shard("train", 0).write_bytes(b"12345678")
    shards = [{"file": folder.shard("train", 0).name, "bytes": 8}]
    folder.manifest.write_text(json.dumps({"splits": {"train": {"shards": shards}}}))
    return folder


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder.of(tmp_path, "serial")
    checkpoint = folder.checkpoints / "step_00000004"
    checkpoint.mkdir(parents=True)
    (checkpoint / "weights.safetensors").write_bytes(b"weights")
    record = FileRecord(bytes=7, sha256=hashlib.sha256(b"weights").hexdigest())
    manifest = Manifest(
        step=4,
        world=World(size=2, dp=2),
        parameters={},
        files={"weights.safetensors": record},
        digests={},
        training_relevant={},
    )
    write_manifest(checkpoint, manifest)
    digest = hashlib.sha256((checkpoint / "manifest.json").read_bytes()).hexdigest()
    folder.hf.mkdir()
    (folder.hf / "config.json").write_text("{}")
    for file in (folder.config_file, folder.memory_json, folder.memory_png, folder.metrics, folder.finished):
        file.write_text("{}")
    folder.parity.write_text("{}")
    folder.estimated.write_text("{}")
    folder.trained.write_text(json.dumps({"checkpoint": "checkpoints/step_00000004", "manifest_sha256": digest}))
    folder.converted.write_text(json.dumps({"files": {"config.json": {"bytes": 2}}}))
    return folder


def test_true_markers_stay(dataset: DatasetFolder, run: RunFolder) -> None:
    assert withdraw_false_markers([dataset], [run]) == []
    assert all(marker.exists() for marker in (dataset.manifest, run.estimated, run.trained, run.converted))


@pytest.mark.parametrize(
    ("lost", "marker"),
    [
        ("config.yml", "estimated.json"),
        ("memory.png", "estimated.json"),
        ("metrics.jsonl", "trained.json"),
        ("checkpoints/step_00000004/weights.safetensors", "trained.json"),
        ("checkpoints/step_00000004/manifest.json", "trained.json"),
        ("hf/config.json", "converted.json"),
        ("parity.json", "converted.json"),
    ],
)
def test_a_lost_file_withdraws_its_marker_alone(run: RunFolder, lost: str, marker: str) -> None:
    (run.path / lost).unlink()
    (sentence,) = withdraw_false_markers([], [run])
    assert sentence.startswith(f"{run.path / marker} withdrawn: ")
    left = {name for name in ("estimated.json", "trained.json", "converted.json") if (run.path / name).exists()}
    assert left == {"estimated.json", "trained.json", "converted.json"} - {marker}


def test_a_file_of_another_size_counts_as_lost(dataset: DatasetFolder, run: RunFolder) -> None:
    dataset.shard("train", 0).write_bytes(b"1234")
    (run.hf / "config.json").write_text("{ }")
    sentences = withdraw_false_markers([dataset], [run])
    assert any("has 4 bytes, not 8" in sentence for sentence in sentences)
    assert not dataset.manifest.exists()
    assert not run.converted.exists()
    assert run.trained.exists()


def test_a_torn_marker_is_withdrawn(dataset: DatasetFolder, run: RunFolder) -> None:
    for marker in (dataset.manifest, run.trained, run.converted):
        marker.write_text('{"check')
    assert len(withdraw_false_markers([dataset], [run])) == 3
