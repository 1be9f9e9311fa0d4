"""Submission to a Slurm whose sbatch prints what real sites print, with a stand-in sbatch first on PATH."""

import os
import stat
from pathlib import Path

import pytest

from neox_train.cluster.ledger import Attempt
from neox_train.cluster.slurm_job import SlurmJob
from neox_train.config.cluster import Cluster
from neox_train.config.layout import RunFolder
from neox_train.errors import TrainingError

CASES = Path(__file__).parent.parent / "cases"
CLUSTER = Cluster(
    name="lab", executor="slurm", processes_per_node=2, cpus_per_process=3, partition="cpu", memory_per_node="6G"
)


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    write_command(folder, "srun", "exit 1")
    return folder


def write_command(folder: Path, name: str, body: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


def submit(tmp_path: Path) -> SlurmJob:
    run = RunFolder(tmp_path / "runs" / "serial")
    folder = run.logs / "attempt-0001"
    folder.mkdir(parents=True)
    return SlurmJob.submit(run, CLUSTER, 2, folder, "serial-1")


@pytest.mark.parametrize(
    ("printed", "job_id", "cluster_name"),
    [("a-banner", "4711", None), ("b-notice", "9182736", None), ("c-federated", "60123", "tern2")],
)
def test_the_job_id_is_found_among_a_sites_notices(
    tmp_path: Path, bin_folder: Path, printed: str, job_id: str, cluster_name: str | None
) -> None:
    write_command(bin_folder, "sbatch", f"cat {CASES}/14-sbatch/{printed}.txt")
    job = submit(tmp_path)
    assert (job.job_id, job.cluster_name, job.processes) == (job_id, cluster_name, 4)


@pytest.mark.parametrize("printed", ["d-parsable", "e-bare", "f-no-id"])
def test_an_output_without_a_job_id_is_quoted(tmp_path: Path, bin_folder: Path, printed: str) -> None:
    file = CASES / "14-sbatch" / f"{printed}.txt"
    write_command(bin_folder, "sbatch", f"cat {file}")
    with pytest.raises(TrainingError) as caught:
        submit(tmp_path)
    assert file.read_text().strip() in str(caught.value)


def test_a_refusal_is_told(tmp_path: Path, bin_folder: Path) -> None:
    write_command(bin_folder, "sbatch", "echo 'sbatch: error: invalid account' >&2; exit 1")
    with pytest.raises(TrainingError, match="invalid account"):
        submit(tmp_path)


def test_a_job_whose_answer_was_lost_is_found_by_its_name(tmp_path: Path, bin_folder: Path) -> None:
    attempt = Attempt(1, "serial-1", "slurm", "login", 2, 4, "logs/attempt-0001", 50.0)
    write_command(bin_folder, "squeue", "exit 1")
    write_command(bin_folder, "sacct", "exit 1")
    assert SlurmJob.attach(attempt, tmp_path) is None
    write_command(bin_folder, "squeue", 'for a in "$@"; do [ "$a" = serial-1 ] && echo 815; done; exit 0')
    job = SlurmJob.attach(attempt, tmp_path)
    assert job is not None
    assert (job.job_id, job.processes) == ("815", 4)


def test_nothing_of_an_outer_job_reaches_sbatch(
    tmp_path: Path, bin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for line in (CASES / "15-inherited.env").read_text().splitlines():
        monkeypatch.setenv(*line.split("=", 1))
    before = dict(os.environ)
    write_command(bin_folder, "sbatch", f"env > {tmp_path}/env; cp $1 {tmp_path}/script; echo Submitted batch job 7")
    write_command(bin_folder, "squeue", f"env > {tmp_path}/squeue-env; echo 'RUNNING|None'")
    job = submit(tmp_path)
    assert job.state().phase == "running"
    for name in ("env", "squeue-env"):
        seen = [line for line in (tmp_path / name).read_text().splitlines() if line.startswith("SLURM_")]
        assert seen == ["SLURM_CONF=conf/slurm.conf"]
    script = (tmp_path / "script").read_text()
    for option in ("--nodes=2", "--ntasks-per-node=2", "--cpus-per-task=3", "--mem=6G"):
        assert f"#SBATCH {option}\n" in script
    assert "16384" not in script
    assert dict(os.environ) == before
