from __future__ import annotations

from pathlib import Path

import pytest

from neox_train.cluster.check import FAILED, PASSED, SKIPPED, WARNING, Check
from neox_train.cluster.doctor_login import check_environment, check_folders, check_login
from neox_train.config.cluster import Cluster, load_cluster
from neox_train.config.profiles import find_profile
from neox_train.errors import ConfigError


def by_name(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_the_software_here(repository: Path, tmp_path: Path) -> None:
    cluster = Cluster(executor="slurm", results=str(tmp_path))
    checks = by_name(check_login(cluster, repository / "cluster_profiles" / "h100" / "config.yaml"))
    for name in ("Python", "Snakemake", "Slurm plugin", "Snakemake profile", "compute-side Python"):
        assert checks[name].status == PASSED


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("executor: slurm\nnolock: true\nconfig: {account: a}\n", FAILED, "configfile: cluster.yaml"),
        ("executor: local\nnolock: true\n", WARNING, "executor"),
        (None, WARNING, "cluster_profiles/h100"),
    ],
)
def test_snakemake_s_half_of_the_profile(tmp_path: Path, text: str | None, status: str, words: str) -> None:
    file = tmp_path / "config.yaml"
    if text is not None:
        file.write_text(text)
    cluster = Cluster(executor="slurm", results=str(tmp_path / "results"))
    check = by_name(check_login(cluster, file))["Snakemake profile"]
    assert check.status == status
    assert words in check.sentence()


@pytest.mark.parametrize(
    ("python", "status"),
    [
        ("apptainer exec --nv /nowhere/image.sif python", FAILED),
        ("/nowhere/bin/python", WARNING),
        ("/bin/sh", PASSED),
    ],
)
def test_the_interpreter_of_the_nodes(tmp_path: Path, python: str, status: str) -> None:
    cluster = Cluster(executor="slurm", python=python, results=str(tmp_path))
    assert by_name(check_login(cluster, None))["compute-side Python"].status == status


def test_folders_are_written_to_and_left_clean(tmp_path: Path) -> None:
    checks = by_name(check_folders(Cluster(results=str(tmp_path / "r"), cache=str(tmp_path / "c"))))
    for key in ("results", "cache"):
        assert checks[key].status in (PASSED, WARNING)
        assert "is writable" in checks[key].found and "bytes free" in checks[key].found
    assert list((tmp_path / "r").iterdir()) == []


def test_a_folder_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_SCRATCH", raising=False)
    (tmp_path / "file").write_text("")
    for text in ("$NO_SUCH_SCRATCH/results", str(tmp_path / "file" / "results")):
        check = by_name(check_folders(Cluster(results=text)))["results"]
        assert (check.status, check.remedy) == (FAILED, "set results: to a folder you may write")


def test_a_purge_is_a_warning(tmp_path: Path) -> None:
    checks = by_name(check_folders(Cluster(results=str(tmp_path), results_purge_days=30)))
    assert (checks["purge"].status, "after 30 days" in checks["purge"].found) == (WARNING, True)


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [(0, PASSED, "/home 12G 20G"), (1, WARNING, "make room"), (None, SKIPPED, "no `quota`")],
)
def test_the_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None, status: str, words: str) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if code is not None:
        (tmp_path / "quota").write_text(
            f"#!/bin/sh\necho 'Disk quotas for user'\necho '/home   12G 20G'\nexit {code}\n"
        )
        (tmp_path / "quota").chmod(0o755)
    check = by_name(check_folders(Cluster(results=str(tmp_path / "r"))))["quota"]
    assert check.status == status
    assert words in check.sentence()


def test_what_should_be_left_alone_is_named_with_the_reason() -> None:
    (check,) = check_environment(Cluster(environment={"NCCL_ALGO": "Ring", "NCCL_DEBUG": "WARN"}))
    assert check.status == WARNING
    assert "NCCL_ALGO (NCCL has no fall-back" in check.found
    assert "NCCL_DEBUG" not in check.found


@pytest.mark.parametrize("name", ["local", "a100", "h100", "h200"])
def test_no_shipped_profile_pins_what_should_be_left_alone(repository: Path, name: str) -> None:
    (check,) = check_environment(load_cluster(repository / "cluster_profiles" / name / "cluster.yaml"))
    assert check.status == PASSED


def test_profiles_are_found_by_name_folder_and_file(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    wanted = (Path("cluster_profiles/h100/cluster.yaml"), Path("cluster_profiles/h100/config.yaml"))
    assert find_profile("h100") == find_profile("cluster_profiles/h100") == wanted
    assert find_profile("cluster_profiles/h100/cluster.yaml") == (wanted[0], None)
    with pytest.raises(ConfigError, match="no profile h101; cluster_profiles has a100, h100"):
        find_profile("h101")
