"""A profile made on a real Slurm fits that Slurm."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from neox_train.config.cluster import load_cluster

from .lab import GPUS_PER_NODE, SlurmLab

pytestmark = pytest.mark.slurm


def create(folder: Path, *options: str, answers: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "neox_train.cli", "profile", "create", "lab", "--folder", str(folder), *options]
    return subprocess.run(command, input=answers, capture_output=True, text=True, timeout=120, check=False)


def test_a_profile_is_asked_of_slurm(slurm: SlurmLab, tmp_path: Path) -> None:
    result = create(tmp_path, "--yes", "--partition", "debug")
    assert result.returncode == 0, result.stderr
    assert "partition debug: 8 h100 of 79.1 GiB a node, 2 minutes a job" in result.stdout
    cluster = load_cluster(tmp_path / "lab" / "cluster.yaml")
    assert (cluster.partition, cluster.processes_per_node, cluster.cpus_per_process) == ("debug", GPUS_PER_NODE, 1)
    assert (cluster.accounting, cluster.preempt_mode, cluster.time_limit_minutes) == (False, "requeue", 2)
    assert "--force" in create(tmp_path, "--yes", "--partition", "debug").stderr


@pytest.mark.parametrize("partition", ["h100", "debug"])
def test_doctor_finds_nothing_to_mend_in_a_new_profile(slurm: SlurmLab, tmp_path: Path, partition: str) -> None:
    create(tmp_path, "--yes", "--partition", partition, "--results", str(tmp_path / "results"))
    command = [sys.executable, "-m", "neox_train.cli", "doctor", "--profile", str(tmp_path / "lab"), "--no-job"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "request of evaluate" in result.stdout
    assert "failed" not in result.stdout


def test_a_person_answers_in_the_terminal(slurm: SlurmLab, tmp_path: Path) -> None:
    given = ("--partition", "h100", "--processes-per-node", "2", "--results", "r", "--interface", "", "--python", "")
    result = create(tmp_path, *given, answers="\n" * 3 + "\n30\n\nyes\n" + "\n" * 5)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "how GPUs are requested [gpus-per-node, gres, none]" in result.stdout
    assert load_cluster(tmp_path / "lab" / "cluster.yaml").processes_per_node == 2


def test_a_partition_that_is_not_there_is_one_sentence(slurm: SlurmLab, tmp_path: Path) -> None:
    result = create(tmp_path, "--yes", "--partition", "h101")
    assert result.returncode == 2
    assert result.stderr.startswith("error: --partition is 'h101'; here it is one of h100, debug")
    assert not (tmp_path / "lab").exists()
