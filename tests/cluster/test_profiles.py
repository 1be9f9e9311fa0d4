"""The shipped profiles: complete, loadable, honest about where their numbers come from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from neox_train.cluster.snakemake_profile import render_snakemake_profile
from neox_train.config.cluster import Cluster, load_cluster
from neox_train.config.cluster_records import Figures

NAMES = ("local", "a100", "h100", "h200")


@pytest.fixture
def profiles(repository: Path) -> Path:
    return repository / "cluster_profiles"


@pytest.mark.parametrize("name", ["a100", "h100"])
def test_snakemake_s_half_is_the_one_that_profile_create_writes(profiles: Path, name: str) -> None:
    assert (profiles / name / "config.yaml").read_text() == render_snakemake_profile("squeue")


@pytest.mark.parametrize("status", ["squeue", "sacct"])
def test_options_that_slurm_profiles_need(status: str) -> None:
    options = yaml.safe_load(render_snakemake_profile(status))
    assert options["slurm-status-command"] == status
    assert options["executor"] == "slurm" and options["nolock"] is True and options["rerun-incomplete"] is True
    assert "config" not in options
    assert min(options["cores"], options["local-cores"]) >= 100
    assert options["retries"] == 0 and options["slurm-requeue"] is True
    assert set(options["set-resources"]) == {"tokenize", "convert", "evaluate"}
    assert all({"runtime", "mem_mb"} <= set(entry) for entry in options["set-resources"].values())


@pytest.mark.parametrize("name", NAMES)
def test_the_facts_load_and_are_named_after_their_folder(profiles: Path, name: str) -> None:
    cluster = load_cluster(profiles / name / "cluster.yaml")
    assert cluster.name == name
    assert cluster.account is cluster.partition is cluster.mail_user is None


@pytest.mark.parametrize("name", ["a100", "h100"])
def test_a_slurm_profile_says_every_key(profiles: Path, name: str) -> None:
    written = yaml.safe_load((profiles / name / "cluster.yaml").read_text())
    left_out = {"memory_gib_per_process", "cache", "reservation", "exclude"}
    assert set(Cluster.model_fields) - set(written) == left_out


@pytest.mark.parametrize("name", ["a100", "h100", "h200"])
def test_numbers_say_where_they_come_from_and_what_was_not_measured_is_not_called_so(profiles: Path, name: str) -> None:
    cluster = load_cluster(profiles / name / "cluster.yaml")
    assert cluster.gpu is not None and cluster.gpu.links is not None
    blocks: list[Figures] = [cluster.gpu, cluster.gpu.peak_tflops, cluster.gpu.links]
    assert all(block.source for block in blocks)
    assert not any(block.measured for block in [*blocks[1:], cluster.network, cluster.preflight])
    # Memory, capability and speed of the one GPU that this project was run on.
    assert cluster.gpu.measured == cluster.rates.measured == (name == "h200")
    assert "H200" not in str(blocks) or name == "h200"


def test_fp8_is_a_matter_of_the_card(profiles: Path) -> None:
    peaks = {name: load_cluster(profiles / name / "cluster.yaml").gpu for name in ("a100", "h100", "h200")}
    assert {name: gpu.peak_tflops.fp8 is not None for name, gpu in peaks.items() if gpu} == {
        "a100": False,
        "h100": True,
        "h200": True,
    }


@pytest.mark.parametrize("name", NAMES)
def test_each_value_has_its_reason(profiles: Path, name: str) -> None:
    """Above every top-level key, or above the block it stands in, is a comment."""
    for file in ("cluster.yaml", "config.yaml"):
        for paragraph in re.split(r"\n\n+", (profiles / name / file).read_text()):
            lines = paragraph.splitlines()
            keys = [line for line in lines if re.match(r"[a-z]", line)]
            alone = {key.split(":")[0] for key in keys} <= {"name", "executor", "source", "measured", "device"}
            assert not keys or alone or any(line.lstrip().startswith("#") for line in lines), paragraph


def test_the_files_are_plain_yaml_for_other_readers_too(profiles: Path) -> None:
    def texts(value: Any) -> list[Any]:
        return [item for child in value.values() for item in texts(child)] if isinstance(value, dict) else [value]

    for name in NAMES:
        environment = yaml.safe_load((profiles / name / "cluster.yaml").read_text()).get("environment", {})
        assert all(isinstance(item, str) for item in texts(environment))
