from __future__ import annotations

import os
import subprocess

import pytest

from neox_train.cluster.gpu_table import KNOWN_GPUS
from neox_train.cluster.stage_jobs import check_run_times, offer_account, stage_resources, stage_shell
from neox_train.config.cluster import Cluster
from neox_train.config.cluster_records import CpuStages
from neox_train.errors import ConfigError

H100 = KNOWN_GPUS[2].build("h100")
STAGES = ("tokenize", "convert", "evaluate")


def cluster(**changes: object) -> Cluster:
    facts = {"executor": "slurm", "device": "cuda", "gpu": H100, "partition": "gpu", "account": "0123456"}
    return Cluster.model_validate({**facts, "constraint": "gpu80", "reservation": "week", **changes})


def test_stages_follow_the_training_where_nothing_else_is_said() -> None:
    common = {"slurm_partition": "gpu", "slurm_account": "0123456", "constraint": "gpu80"}
    common["slurm_extra"] = "--reservation=week"
    assert [stage_resources(cluster(), stage) for stage in STAGES] == [common, common, {**common, "gres": "gpu:1"}]


def test_features_of_gpu_nodes_are_not_asked_of_another_partition() -> None:
    facts = cluster(cpu_stages=CpuStages(partition="cpu"), qos="gpu")
    assert stage_resources(facts, "tokenize") == {"slurm_partition": "cpu", "slurm_account": "0123456"}
    assert stage_resources(facts, "evaluate")["slurm_partition"] == "gpu"
    own = cluster(cpu_stages=CpuStages(partition="cpu", account="m1", qos="shared", constraint="cpu"))
    assert stage_resources(own, "convert") == {
        "slurm_partition": "cpu",
        "slurm_account": "m1",
        "qos": "shared",
        "constraint": "cpu",
    }


@pytest.mark.parametrize(
    ("changes", "gres"),
    [({"gres_type": "h100"}, "gpu:h100:1"), ({"gres_style": "none"}, None), ({"device": "cpu"}, None)],
)
def test_the_gpu_of_evaluate(changes: dict[str, object], gres: str | None) -> None:
    assert stage_resources(cluster(**changes), "evaluate").get("gres") == gres


def test_nothing_is_asked_without_slurm() -> None:
    assert stage_resources(Cluster(account="a"), "tokenize") == {}


def test_without_accounting_the_plugin_is_not_given_an_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_ACCOUNT", "restored afterwards")
    monkeypatch.delenv("SBATCH_ACCOUNT")
    offer_account(cluster())
    assert "SBATCH_ACCOUNT" not in os.environ
    facts = cluster(accounting=False)
    offer_account(facts)
    assert os.environ["SBATCH_ACCOUNT"] == "0123456"
    assert "slurm_account" not in stage_resources(facts, "tokenize")


def test_a_job_runs_the_set_up_lines_before_the_shell_is_strict() -> None:
    facts = cluster(setup=["export GREETING=${UNSET_BEFORE}hello"], environment={"CACHE": "${UNSET_TOO:-/tmp}/x"})
    lines, python = stage_shell(facts, on_compute_node=True)
    script = f'{lines}set -euo pipefail; {python} -c \'import os; print(os.environ["GREETING"], os.environ["CACHE"])\''
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "hello /tmp/x\n"


def test_here_a_stage_runs_in_this_environment() -> None:
    assert stage_shell(cluster(setup=["exit 1"], python="/nowhere"), on_compute_node=False)[0] == ""


@pytest.mark.parametrize(
    ("written", "minutes"), [("01:30:00", 90), ("'2:00:00'", 120), ("1-00:00:00", 1440), ("2-12", 3600)]
)
def test_slurm_s_spelling_of_time_is_refused_with_minutes(written: str, minutes: int) -> None:
    with pytest.raises(ConfigError, match=f"runtime in set-resources of tokenize is .*: write {minutes} or {minutes}m"):
        check_run_times({"set-resources of tokenize": written})


def test_snakemake_s_spellings_pass() -> None:
    check_run_times({"a": 90, "b": "90", "c": "90m", "d": "1d", "e": "attempt * 60", "f": None})
