import json
import shutil
from pathlib import Path

import pytest

from neox_train.cluster.markers import find_false_markers, list_losses
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.config.pipeline import DatasetSpec
from tests.cluster.trained_folder import make_dataset, make_trained_run


@pytest.fixture
def dataset(tmp_path: Path) -> DatasetFolder:
    return make_dataset(DatasetFolder.of(tmp_path, "words"))


@pytest.fixture
def run(tmp_path: Path, dataset: DatasetFolder) -> RunFolder:
    folder = RunFolder.of(tmp_path, "serial")
    make_trained_run(folder, dataset)
    return folder


def remove_export(run: RunFolder) -> None:
    """Before its export, a run's checkpoint is all there is of it."""
    shutil.rmtree(run.hf)
    run.converted.unlink()


def test_true_markers_are_not_listed(dataset: DatasetFolder, run: RunFolder) -> None:
    assert find_false_markers([dataset], [run]) == {}
    assert list_losses([run]) == []


def test_a_dataset_of_another_entry_is_not_what_its_marker_says(dataset: DatasetFolder) -> None:
    entry = {"source": {"kind": "python_stdlib", "max_bytes": 100}, "tokenizer": {"train": "bpe", "vocab_size": 300}}
    manifest = json.loads(dataset.manifest.read_text())
    # As an older version wrote it: without the keys that came later.
    dataset.manifest.write_text(json.dumps({**manifest, "spec": entry}))
    same = DatasetSpec.model_validate(entry)
    other = same.model_copy(update={"seed": 7})
    assert find_false_markers([dataset], [], {"words": same}) == {}
    assert find_false_markers([dataset], [], {"another": other}) == {}
    found = find_false_markers([dataset], [], {"words": other})
    assert found == {dataset.tokenized: "the dataset's entry in the pipeline file changed"}


@pytest.mark.parametrize(
    ("lost", "marker"),
    [
        ("config.yml", "estimated.json"),
        ("memory.png", "estimated.json"),
        ("finished.json", "trained.json"),
        ("hf/config.json", "converted.json"),
        ("parity.json", "converted.json"),
    ],
)
def test_a_lost_file_makes_its_marker_false_alone_and_nothing_is_changed(
    run: RunFolder, lost: str, marker: str
) -> None:
    (run.path / lost).unlink()
    before = sorted(run.path.rglob("*"))
    assert list(find_false_markers([], [run])) == [run.path / marker]
    assert sorted(run.path.rglob("*")) == before


@pytest.mark.parametrize("lost", ["weights.safetensors", "manifest.json"])
def test_a_lost_checkpoint_counts_before_the_export_and_not_after_it(run: RunFolder, lost: str) -> None:
    (run.checkpoints / "step_00000020" / lost).unlink()
    assert find_false_markers([], [run]) == {}
    (notice,) = list_losses([run])
    assert "step_00000020" in notice and "not repeated" in notice
    remove_export(run)
    assert list(find_false_markers([], [run])) == [run.trained]
    assert list_losses([run]) == []


def test_a_file_of_another_size_counts_as_lost(dataset: DatasetFolder, run: RunFolder) -> None:
    dataset.shard("train", 0).write_bytes(b"1234")
    (run.hf / "config.json").write_text("{ }")
    false = find_false_markers([dataset], [run])
    assert list(false) == [dataset.tokenized, run.converted]
    assert "has 4 bytes, not 8" in false[dataset.tokenized]


def test_a_manifest_of_other_tokens_is_not_the_marker_s(dataset: DatasetFolder) -> None:
    marker = dataset.tokenized.read_text()
    make_dataset(dataset, tokens=b"87654321")
    dataset.tokenized.write_text(marker)
    assert find_false_markers([dataset], []) == {dataset.tokenized: "manifest.json is of other tokens"}


def test_a_torn_record_makes_its_marker_false(dataset: DatasetFolder, run: RunFolder) -> None:
    for marker in (dataset.tokenized, run.trained, run.converted):
        marker.write_text('{"check')
    assert list(find_false_markers([dataset], [run])) == [dataset.tokenized, run.trained, run.converted]
    dataset.tokenized.write_text("{}")
    dataset.manifest.write_text('{"spl')
    assert find_false_markers([dataset], [])[dataset.tokenized] == "manifest.json cannot be read"


def test_a_record_of_another_form_makes_its_marker_false(dataset: DatasetFolder, run: RunFolder) -> None:
    run.converted.write_text('{"files": ["model.safetensors"]}')
    assert find_false_markers([dataset], [run]) == {run.converted: "its list of files cannot be read"}


def test_lost_metrics_are_told_and_train_nothing(run: RunFolder) -> None:
    run.metrics.unlink()
    assert find_false_markers([], [run]) == {}
    (sentence,) = list_losses([run])
    assert sentence == "run serial: metrics.jsonl is gone; the training is not repeated for its curves"
