"""Provenance: what is written, the git state told truly, earlier attempts kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from neox_train.config.cluster import Cluster
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.config.load import load_config
from neox_train.config.schema import NeoxConfig
from neox_train.data.manifest import Sources, load_manifest, make_manifest
from neox_train.files import make_folder, read_json, write_json
from neox_train.monitoring.hardware import describe_host, parse_gpu_lines
from neox_train.monitoring.provenance import describe_git, write_provenance


@pytest.fixture
def config(cases: Path, tmp_path: Path) -> NeoxConfig:
    dataset = DatasetFolder(make_folder(tmp_path / "datasets" / "tiny"))
    manifest = make_manifest(
        vocab_size=9,
        dtype="uint16",
        eod_token="<|endoftext|>",
        eod_id=0,
        tokenizer_sha256="t1",
        splits={},
        sources=Sources(files=0, bytes=0, digest=""),
    )
    manifest.write(dataset.path)
    files = [cases / "base.yml", cases / "optimizer.yml"]
    return load_config(files, overrides={"data_path": str(dataset.path)}, world_size=1)


def test_the_file_says_what_made_the_run(config: NeoxConfig, tmp_path: Path):
    run = RunFolder.of(tmp_path, "tiny")
    write_provenance(run, config, Cluster(name="here"), command=["neox-train", "submit", "a b"])
    record = read_json(run.provenance)
    assert record["command"] == "neox-train submit 'a b'"
    assert record["packages"]["torch"] == version("torch")
    assert record["profile"] == {"name": "here", "executor": "local", "device": "cpu"}
    assert record["seeds"] == {"model_and_data": config.seed}
    digest = load_manifest(Path(str(config.data_path))).digest
    assert record["digests"] == {"config": config.training_digest(), "dataset": digest, "tokenizer": "t1"}
    assert record["machine"]["cpu_cores"] >= 1 and record["machine"]["memory_gib"] > 0
    assert record["earlier_attempts"] == []


def test_every_attempt_is_kept(config: NeoxConfig, tmp_path: Path):
    run = RunFolder.of(tmp_path, "tiny")
    records = [write_provenance(run, config, Cluster()) for _ in range(3)]
    assert len(records[2]["earlier_attempts"]) == 2
    assert records[2]["earlier_attempts"][0]["time"] == records[0]["time"]
    assert records[2]["earlier_attempts"][1]["config"] == config.training_digest()


def test_a_forced_memory_gate_is_recorded(config: NeoxConfig, tmp_path: Path):
    run = RunFolder.of(tmp_path, "r")
    assert write_provenance(run, config, Cluster())["memory_gate"] is None
    gate = {"verdict": "does_not_fit", "forced": True, "total_bytes": 9, "budget_bytes": 8}
    write_json(run.estimated, {"run": "r", "training_digest": "-", **gate})
    assert write_provenance(run, config, Cluster())["memory_gate"] == gate


def test_a_dataset_that_is_not_there_yet_has_no_digest(config: NeoxConfig, tmp_path: Path):
    DatasetFolder(Path(str(config.data_path))).manifest.unlink()
    record = write_provenance(RunFolder.of(tmp_path, "r"), config, Cluster())
    assert record["digests"]["dataset"] is None


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed: apt-get install git")
def test_git_state_is_told_truly(tmp_path: Path):
    assert describe_git(tmp_path) is None
    package = make_folder(tmp_path / "checkout" / "package")
    git(package.parent, "init", "-q", "-b", "work")
    (package / "file.py").write_text("a = 1\n", encoding="utf-8")
    assert describe_git(package) is None
    git(package.parent, "add", "package")
    git(package.parent, "commit", "-q", "-m", "first")
    clean = describe_git(package)
    commit = git(package.parent, "rev-parse", "HEAD")
    assert clean == {"commit": commit, "branch": "work", "dirty": False, "changed_files": 0}
    (package / "file.py").write_text("a = 2\n", encoding="utf-8")
    (package / "new.py").write_text("b = 1\n", encoding="utf-8")
    dirty = describe_git(package)
    assert dirty is not None and dirty["dirty"] and dirty["changed_files"] == 2
    installed = make_folder(package.parent / "venv" / "package")
    assert describe_git(installed) is None


def test_gpu_lines_are_read():
    text = "NVIDIA H200, 143771 MiB, 570.86.15\nNVIDIA H200, 143771 MiB, 570.86.15\n\nno devices\n"
    assert parse_gpu_lines(text) == [{"name": "NVIDIA H200", "memory": "143771 MiB", "driver": "570.86.15"}] * 2


def test_a_driver_that_fails_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    broken = tmp_path / "nvidia-smi"
    broken.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed, because, of'\nexit 9\n", encoding="utf-8")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert describe_host()["gpus"] == []


@pytest.mark.parametrize("module", ["provenance", "report.page", "report.inputs"])
def test_login_nodes_need_no_torch(module: str):
    code = f"import sys, neox_train.monitoring.{module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
