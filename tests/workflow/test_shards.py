"""A dataset whose files are divided among jobs, by the real Snakemake; one of them is killed."""

import os
from pathlib import Path

import psutil
import pytest

from neox_train.config.layout import PLAN, DatasetFolder, shard_name
from neox_train.config.pipeline import load_pipeline
from neox_train.data.store import TokenStore
from neox_train.data.tokenize import tokenize_dataset
from neox_train.data.verification import verify_dataset
from tests.workflow.working_copy import PIPELINE, Snakemake, WorkingCopy

pytestmark = [pytest.mark.workflow, pytest.mark.distributed, pytest.mark.timeout(300)]
SHARDS = 3
KILLED = 1


def shard_process(snakemake: Snakemake, shard: int) -> psutil.Process:
    for process in psutil.Process(snakemake.process.pid).children(recursive=True):
        if process.cmdline()[1:4] == ["-m", "neox_train.cli", "tokenize"] and shard_name(shard) in process.cmdline():
            return process
    raise AssertionError(f"shard {shard} is not at work")


def written_files(folder: DatasetFolder) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in folder.path.glob("tokens-*/0*/*")}


def test_a_killed_shard_alone_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = WorkingCopy.make(tmp_path / "copy")
    divided = PIPELINE.replace("    splits:", f"    shards: {SHARDS}\n    splits:")
    (copy.folder / "pipeline.yaml").write_text(divided)
    dataset = copy.dataset()
    target = os.path.relpath(dataset.tokenized, copy.folder)

    snakemake = copy.start(target)
    snakemake.wait_until((dataset.part(shard_name(KILLED)).path / "stage.json").is_file)
    shard_process(snakemake, KILLED).kill()
    code, text = snakemake.wait()
    assert code != 0
    assert f"dataset words, shard {KILLED}, tokenize: no word of how it ended" in text
    markers = [dataset.part(shard_name(shard)).tokenized.is_file() for shard in range(SHARDS)]
    assert markers == [True, False, True]
    assert dataset.part(PLAN).tokenized.is_file() and not dataset.manifest.exists()
    before = written_files(dataset)
    assert {file.parent.name for file in before} == {shard_name(0), shard_name(2)}

    code, text = copy.snakemake(target)
    assert code == 0, text
    after = written_files(dataset)
    assert before.items() <= after.items()
    assert {file.parent.name for file in after.keys() - before.keys()} == {shard_name(KILLED)}
    assert verify_dataset(dataset.path) == []

    monkeypatch.chdir(copy.folder)
    (copy.folder / "whole.yaml").write_text(PIPELINE)
    whole = DatasetFolder(tmp_path / "whole")
    manifest = tokenize_dataset(load_pipeline("whole.yaml").dataset("words"), whole)
    for split in manifest.splits:
        one, many = TokenStore.open(whole.path, split), TokenStore.open(dataset.path, split)
        assert one.read(0, one.num_tokens).tolist() == many.read(0, many.num_tokens).tolist()
        assert one.document_offsets.tolist() == many.document_offsets.tolist()
