"""What a Slurm profile's stages ask of sbatch: run time, GPUs, partition and account, character for character."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.workflow.fake_slurm import FakeSlurm, edit_profile, value_of
from tests.workflow.working_copy import REPOSITORY, WorkingCopy

pytestmark = [pytest.mark.workflow, pytest.mark.timeout(300)]


def rows(name: str) -> list[list[str]]:
    lines = (REPOSITORY / "tests" / "cases" / name).read_text().splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


@pytest.fixture
def copy(tmp_path: Path) -> WorkingCopy:
    return WorkingCopy.make(tmp_path / "copy")


def in_place(place: str, resources: dict[str, Any]) -> dict[str, Any]:
    """The same resources as defaults of every rule, or for tokenize."""
    if place == "default-resources":
        return {"default-resources": {"mem_mb": 4000, **resources}, "set-resources": {"convert": {"mem_mb": 1}}}
    return {"set-resources": {"tokenize": resources}}


@pytest.mark.parametrize("place", ["default-resources", "set-resources"])
@pytest.mark.parametrize(("written", "wanted"), rows("25-runtime.tsv"))
def test_run_times_reach_sbatch_in_minutes(
    copy: WorkingCopy, tmp_path: Path, place: str, written: str, wanted: str
) -> None:
    import yaml

    edit_profile(copy, "h100", **in_place(place, {"runtime": yaml.safe_load(written)}))
    call = FakeSlurm.make(tmp_path / "bin").submit(copy)
    assert value_of(call, "-t") == wanted.split(",")[0]


@pytest.mark.parametrize("place", ["default-resources", "set-resources"])
@pytest.mark.parametrize("written", ["gpu:1", "gpu:h100:2"])
def test_gpus_reach_sbatch_without_stray_quotes(copy: WorkingCopy, tmp_path: Path, place: str, written: str) -> None:
    edit_profile(copy, "h100", **in_place(place, {"runtime": 10, "gres": written}))
    call = FakeSlurm.make(tmp_path / "bin").submit(copy)
    assert value_of(call, "--gres") == written


def test_the_profile_as_shipped(copy: WorkingCopy, tmp_path: Path) -> None:
    call = FakeSlurm.make(tmp_path / "bin").submit(copy)
    assert (value_of(call, "-t"), value_of(call, "--mem"), value_of(call, "--cpus-per-task")) == ("240", "32000", "8")
    assert "--requeue" in call["arguments"]
    assert value_of(call, "--gres") is None
    assert value_of(call, "-A") is None


@pytest.mark.parametrize(("typed", "wanted"), rows("05-account.tsv"))
def test_site_values_of_the_command_line_reach_sbatch_as_typed(
    copy: WorkingCopy, tmp_path: Path, typed: str, wanted: str
) -> None:
    slurm = FakeSlurm.make(tmp_path / "bin", accounts=wanted)
    call = slurm.submit(copy, f"account={typed}", f"partition={typed}")
    assert (value_of(call, "-A"), value_of(call, "-p")) == (wanted, wanted)


def test_site_values_of_the_environment(copy: WorkingCopy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEOX_TRAIN_ACCOUNT", "0123456")
    monkeypatch.setenv("NEOX_TRAIN_PARTITION", "1e3")
    call = FakeSlurm.make(tmp_path / "bin", accounts="0123456").submit(copy, "partition=typed")
    assert (value_of(call, "-A"), value_of(call, "-p")) == ("0123456", "typed")


def test_without_accounting_the_account_goes_by_sbatch_s_variable(copy: WorkingCopy, tmp_path: Path) -> None:
    call = FakeSlurm.make(tmp_path / "bin").submit(copy, "account=0123456", "accounting=False")
    assert value_of(call, "-A") is None
    assert call["environment"]["SBATCH_ACCOUNT"] == "0123456"
