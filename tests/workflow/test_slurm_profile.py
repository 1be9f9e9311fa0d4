"""What a Slurm profile's stages ask of sbatch: run time, GPUs, partition and account, character for character."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.workflow.fake_slurm import FakeSlurm, edit_profile, value_of
from tests.workflow.working_copy import REPOSITORY, WorkingCopy

pytestmark = [pytest.mark.workflow, pytest.mark.timeout(300)]

GRES = ("gpu:1", "gpu:h100:2")


def rows(name: str) -> list[tuple[str, str]]:
    lines = (REPOSITORY / "tests" / "cases" / name).read_text().splitlines()
    return [tuple(line.split("\t")) for line in lines if line and not line.startswith("#")]  # type: ignore[misc]


RUN_TIMES = [(yaml.safe_load(written), wanted) for written, wanted in rows("25-runtime.tsv")]
READABLE = [(written, wanted) for written, wanted in RUN_TIMES if wanted.isdigit()]
COLONS = [written for written, wanted in RUN_TIMES if not wanted.isdigit()]


@pytest.fixture
def copy(tmp_path: Path) -> WorkingCopy:
    return WorkingCopy.make(tmp_path / "copy")


def test_run_times_and_gpus_set_for_rules_reach_sbatch(copy: WorkingCopy, tmp_path: Path) -> None:
    """One rule for each spelling, under the shipped options and in the same spelling as the profile's."""
    wanted = {f"time{index}": minutes for index, (_, minutes) in enumerate(READABLE)}
    resources = {f"time{index}": {"runtime": written} for index, (written, _) in enumerate(READABLE)}
    resources |= {f"gres{index}": {"runtime": 10, "gres": written} for index, written in enumerate(GRES)}
    rules = "".join(f'rule {name}:\n    output: "{name}.txt"\n    shell: "true"\n\n' for name in resources)
    targets = ", ".join(f'"{name}.txt"' for name in resources)
    (copy.folder / "workflow" / "Snakefile").write_text(f"rule train_all:\n    input: {targets}\n\n{rules}")
    edit_profile(copy, "h100", **{"set-resources": resources, "set-threads": None, "quiet": None})
    calls = {value_of(call, "--comment"): call for call in FakeSlurm.make(tmp_path / "bin").submit(copy)}
    assert {name: value_of(calls[f"rule_{name}"], "-t") for name in wanted} == wanted
    assert [value_of(calls[f"rule_gres{index}"], "--gres") for index in range(len(GRES))] == list(GRES)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [pytest.param(*row, marks=[pytest.mark.full] if index not in (0, 3) else []) for index, row in enumerate(READABLE)],
)
def test_default_run_times_and_gpus_reach_sbatch(
    copy: WorkingCopy, tmp_path: Path, written: str | int, wanted: str
) -> None:
    defaults = {"mem_mb": 4000, "runtime": written, "gres": GRES[len(str(written)) % 2]}
    edit_profile(copy, "h100", **{"default-resources": defaults, "set-resources": None})
    (call,) = FakeSlurm.make(tmp_path / "bin").submit(copy, "--until", "tokenize")
    assert (value_of(call, "-t"), value_of(call, "--gres")) == (wanted, defaults["gres"])


@pytest.mark.parametrize("place", ["default-resources", "set-resources"])
@pytest.mark.parametrize("written", COLONS)
def test_slurm_s_spelling_of_time_is_one_sentence_with_one_that_works(
    copy: WorkingCopy, tmp_path: Path, place: str, written: str
) -> None:
    resources = {"mem_mb": 4000, "runtime": written}
    edit_profile(copy, "h100", **{place: resources if place == "default-resources" else {"tokenize": resources}})
    slurm = FakeSlurm.make(tmp_path / "bin")
    text = slurm.refuse(copy)
    assert written in text
    assert "write 90 or 90m" in text
    assert "Traceback" not in text
    assert slurm.calls() == []


def test_the_profile_as_shipped(copy: WorkingCopy, tmp_path: Path) -> None:
    (call,) = FakeSlurm.make(tmp_path / "bin").submit(copy, "--until", "tokenize")
    assert (value_of(call, "-t"), value_of(call, "--mem"), value_of(call, "--cpus-per-task")) == ("240", "32000", "8")
    assert "--requeue" in call["arguments"]
    assert value_of(call, "--gres") is None
    assert value_of(call, "-A") is None


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        pytest.param(*row, marks=[pytest.mark.full] if index % 3 else [])
        for index, row in enumerate(rows("05-account.tsv"))
    ],
)
def test_site_values_of_the_command_line_reach_sbatch_as_typed(
    copy: WorkingCopy, tmp_path: Path, typed: str, wanted: str
) -> None:
    slurm = FakeSlurm.make(tmp_path / "bin", accounts=wanted)
    (call,) = slurm.submit(copy, "--until", "tokenize", config=[f"account={typed}", f"partition={typed}"])
    assert (value_of(call, "-A"), value_of(call, "-p")) == (wanted, wanted)


def test_site_values_of_the_environment(copy: WorkingCopy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEOX_TRAIN_ACCOUNT", "0123456")
    monkeypatch.setenv("NEOX_TRAIN_PARTITION", "1e3")
    slurm = FakeSlurm.make(tmp_path / "bin", accounts="0123456")
    (call,) = slurm.submit(copy, "--until", "tokenize", config=["partition=typed"])
    assert (value_of(call, "-A"), value_of(call, "-p")) == ("0123456", "typed")


def test_without_accounting_the_account_goes_by_sbatch_s_variable(copy: WorkingCopy, tmp_path: Path) -> None:
    slurm = FakeSlurm.make(tmp_path / "bin")
    (call,) = slurm.submit(copy, "--until", "tokenize", config=["account=0123456", "accounting=False"])
    assert value_of(call, "-A") is None
    assert call["environment"]["SBATCH_ACCOUNT"] == "0123456"


@pytest.mark.parametrize("profile", ["a100", "h100", "h200"])
def test_every_shipped_profile_plans_the_whole_chain(copy: WorkingCopy, tmp_path: Path, profile: str) -> None:
    text = FakeSlurm.make(tmp_path / "bin").dry_run(copy, profile=profile, config=["account=0123456"])
    for rule, count in {"tokenize": 1, "estimate": 2, "train": 2, "convert": 2, "evaluate": 2, "report": 1}.items():
        assert f"{rule} {count}" in " ".join(text.split())
    assert not copy.results.exists()
