"""A corpus scattered over Slurm jobs by the real Snakemake and its plugin; one shard's job is killed."""

import os
from pathlib import Path

import psutil
import pytest

from neox_train.config.layout import DatasetFolder, shard_name
from neox_train.config.pipeline import load_pipeline
from neox_train.data.store import TokenStore
from neox_train.data.tokenize import tokenize_dataset
from neox_train.data.verification import verify_dataset
from tests.workflow.working_copy import PIPELINE, WorkingCopy

from .lab import SlurmLab
from .profiles import PLUGIN, PROFILE, write_profile

pytestmark = [pytest.mark.slurm, pytest.mark.workflow, pytest.mark.full, pytest.mark.timeout(600)]
SHARDS = 3
KILLED = 1


def find_shard(folder: Path, shard: int) -> psutil.Process | None:
    """The process of a shard's stage, a descendant of a job's slurmstepd."""
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        is_shard = command[1:4] == ["-m", "neox_train.cli", "tokenize"] and shard_name(shard) in command
        if is_shard and process.cwd() == str(folder):
            return process
    return None


def written_shards(folder: DatasetFolder) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in folder.path.glob("tokens-*/0*/*")}


def test_a_killed_shards_job_alone_is_repeated(
    slurm: SlurmLab, default_place: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = WorkingCopy.make(tmp_path / "copy")
    (copy.folder / "pipeline.yaml").write_text(PIPELINE.replace("    splits:", f"    shards: {SHARDS}\n    splits:"))
    write_profile(copy, PLUGIN)
    dataset = copy.dataset()
    target = os.path.relpath(dataset.tokenized, copy.folder)
    before = len(slurm.list_attempts())

    snakemake = copy.start(target, profile=PROFILE)
    snakemake.wait_until((dataset.part(shard_name(KILLED)).path / "stage.json").is_file)
    process = find_shard(copy.folder, KILLED)
    assert process is not None
    process.kill()
    code, text = snakemake.wait()
    assert code != 0
    assert f"dataset words, shard {KILLED}, tokenize: no word of how it ended" in text
    first = slurm.list_attempts()[before:]
    # The plan, then the shards, each a job; the join waits.
    assert sorted(job["JobState"] for job in first) == ["COMPLETED"] * SHARDS + ["FAILED"], first
    kept = written_shards(dataset)
    assert {file.parent.name for file in kept} == {shard_name(0), shard_name(2)}
    assert not dataset.manifest.exists()

    code, text = copy.snakemake(target, profile=PROFILE)
    assert code == 0, text
    again = slurm.list_attempts()[before + len(first) :]
    assert [job["JobState"] for job in again] == ["COMPLETED"] * 2, "the killed shard and the join"
    made = written_shards(dataset)
    assert kept.items() <= made.items()
    assert {file.parent.name for file in made.keys() - kept.keys()} == {shard_name(KILLED)}
    assert verify_dataset(dataset.path) == []

    monkeypatch.chdir(copy.folder)
    (copy.folder / "whole.yaml").write_text(PIPELINE)
    whole = DatasetFolder(tmp_path / "whole")
    tokenize_dataset(load_pipeline("whole.yaml").dataset("words"), whole)
    for split in ("train", "validation", "test"):
        one, many = TokenStore.open(whole.path, split), TokenStore.open(dataset.path, split)
        assert one.read(0, one.num_tokens).tolist() == many.read(0, many.num_tokens).tolist()
