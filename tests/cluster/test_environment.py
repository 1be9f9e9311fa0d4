import os
import subprocess
from pathlib import Path

import pytest

from neox_train.cluster.environment import (
    allow_changes,
    clean_environment,
    export_lines,
    job_variables,
    rank_variables,
)
from neox_train.config.cluster import Cluster
from neox_train.config.variables import ALLOW_CHANGE
from neox_train.errors import ConfigError

INHERITED = dict(
    line.split("=", 1)
    for line in (Path(__file__).parent.parent / "cases" / "15-inherited.env").read_text().splitlines()
)


def test_an_outer_job_is_hidden_except_where_the_controller_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in INHERITED.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_PORT", "29500")
    before = dict(os.environ)
    with clean_environment({"ADDED": "yes"}):
        assert {name for name in os.environ if name.startswith("SLURM")} == {"SLURM_CONF"}
        assert "MASTER_PORT" not in os.environ
        assert os.environ["ADDED"] == "yes"
    assert dict(os.environ) == before


def test_environment_is_as_before_after_an_error() -> None:
    before = dict(os.environ)
    with pytest.raises(RuntimeError), clean_environment({"ADDED": "yes"}):
        raise RuntimeError
    assert dict(os.environ) == before


def test_cluster_file_wins_over_the_defaults() -> None:
    cluster = Cluster(cpus_per_process=4, environment={"OMP_NUM_THREADS": "3", "NCCL_DEBUG": "WARN"})
    variables = job_variables(cluster)
    assert variables["OMP_NUM_THREADS"] == "3"
    assert variables["NCCL_DEBUG"] == "WARN"
    assert job_variables(Cluster(cpus_per_process=4))["OMP_NUM_THREADS"] == "4"


def test_export_lines_keep_every_character_and_expand_variables() -> None:
    odd = {"QUOTED": 'a "b" \\ `c` d', "CACHE": "$HOME_OF_TEST/cache"}
    script = "\n".join([*export_lines(odd), 'printf "%s|%s" "$QUOTED" "$CACHE"'])
    result = subprocess.run(
        ["bash", "-c", script], env={"HOME_OF_TEST": "/scratch"}, capture_output=True, text=True, timeout=20, check=True
    )
    assert result.stdout == 'a "b" \\ `c` d|/scratch/cache'


def test_rank_variables_are_those_of_torch() -> None:
    assert rank_variables(rank=5, world_size=8, local_rank=1, address="10.0.0.1", port=12345) == {
        "RANK": "5",
        "WORLD_SIZE": "8",
        "LOCAL_RANK": "1",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "12345",
    }


def test_allowed_changes_reach_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOW_CHANGE, "")
    allow_changes([])
    assert ALLOW_CHANGE not in job_variables(Cluster())
    allow_changes(["weight_decay", "dataset"])
    assert job_variables(Cluster())[ALLOW_CHANGE] == "weight_decay,dataset"


def test_a_name_that_cannot_be_allowed_is_refused_with_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    # Set first, so that what the test leaves in the environment is taken away after it.
    monkeypatch.setenv(ALLOW_CHANGE, "")
    monkeypatch.delenv(ALLOW_CHANGE)
    with pytest.raises(ConfigError, match="--allow-change: hiden_size is not a known key; did you mean hidden_size"):
        allow_changes(["dataset", "hiden_size"])
    assert ALLOW_CHANGE not in os.environ
    allow_changes(["dataset", "tokenizer", "weight_decay", "ffn_width"])
    assert os.environ[ALLOW_CHANGE] == "dataset,tokenizer,weight_decay,ffn_width"
