from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from neox_train.cluster.check import FAILED, PASSED, SKIPPED, WARNING, Check
from neox_train.cluster.doctor_slurm import check_slurm
from neox_train.cluster.gpu_table import KNOWN_GPUS
from neox_train.cluster.requests import request_options, stage_requests
from neox_train.cluster.slurm_state import Answer
from neox_train.cluster.snakemake_profile import render_snakemake_profile
from neox_train.config.cluster import Cluster
from neox_train.config.cluster_records import CpuStages
from tests.cluster.slurm_answers import FakeSlurm, partition_line

CASES = Path(__file__).parent.parent / "cases" / "13-gres.tsv"
OPTIONS = yaml.safe_load(render_snakemake_profile("squeue"))
H100 = next(gpu for gpu in KNOWN_GPUS if gpu.key == "h100").build("h100")


def cluster(**changes: object) -> Cluster:
    facts = {
        "executor": "slurm",
        "device": "cuda",
        "gpu": H100,
        "partition": "gpu",
        "processes_per_node": 4,
        "cpus_per_process": 16,
        "accounting": True,
        "preempt_mode": "off",
    }
    return Cluster.model_validate({**facts, **changes})


def examine(slurm: FakeSlurm, nodes: int = 2, status: str = "squeue", **changes: object) -> dict[str, Check]:
    options = {**OPTIONS, "slurm-status-command": status}
    return {check.name: check for check in check_slurm(cluster(**changes), nodes, options, slurm)}


def test_a_profile_that_fits() -> None:
    checks = examine(FakeSlurm())
    assert {check.status for check in checks.values()} == {PASSED}
    assert checks["GPUs"].found == "4 of 4 h100 a node"
    assert checks["nodes"].found == "2 of 4"


def test_slurm_that_does_not_answer_is_one_failure() -> None:
    (check,) = check_slurm(cluster(), 1, {}, lambda command: Answer(127, "", "No such file"))
    assert (check.name, check.status) == ("Slurm", FAILED)


@pytest.mark.parametrize(
    ("name", "slurm", "changes", "words"),
    [
        ("partition", FakeSlurm(), {"partition": "gpux"}, ("no gpux", "one of gpu")),
        ("time limit", FakeSlurm(), {"time_limit_minutes": 4000}, ("allows 2880", "time_limit_minutes: 2880")),
        ("nodes", FakeSlurm(partitions=[partition_line(max_nodes="1")]), {}, ("wants 2", "gives 1", "nodes:")),
        ("cores", FakeSlurm(), {"cpus_per_process": 32}, ("128 a node", "has 64", "cpus_per_process: 16")),
        ("account", FakeSlurm(), {"account": "chem"}, ("chem is not yours", "one of physics")),
        (
            "account",
            FakeSlurm(partitions=[partition_line(accounts="chem")]),
            {"account": "physics"},
            ("may not use gpu", "chem"),
        ),
        ("qos", FakeSlurm(), {"qos": "week"}, ("week is not yours", "long, normal")),
        ("accounting", FakeSlurm(accounts=None), {}, ("does not answer", "accounting: false")),
        ("GPUs", FakeSlurm(), {"processes_per_node": 8, "cpus_per_process": 8}, ("8 h100 a node wanted", "4 h100")),
        (
            "GPUs",
            FakeSlurm(gres=["gpu:v100:1,gpu:a100:3"]),
            {},
            ("1 v100 and 3 a100", "gres_type: to one of a100, v100"),
        ),
        (
            "request",
            FakeSlurm(test_only=Answer(1, "", "allocation failure: Requested node configuration is not available\n")),
            {},
            ("Requested node configuration is not available",),
        ),
    ],
)
def test_failures_name_what_was_found_and_the_remedy(
    name: str, slurm: FakeSlurm, changes: dict[str, object], words: tuple[str, ...]
) -> None:
    check = examine(slurm, **changes)[name]
    assert check.status == FAILED
    for word in words:
        assert word in check.sentence()


def test_an_account_that_cannot_be_looked_up_is_skipped() -> None:
    checks = examine(FakeSlurm(accounts=None), accounting=False, account="physics")
    assert checks["account"].status == SKIPPED
    assert "accounting" not in checks


def test_without_a_partition_slurm_s_default_is_said() -> None:
    assert "Slurm's default" in examine(FakeSlurm(), partition=None)["partition"].found
    lines = [partition_line(default="NO")]
    assert examine(FakeSlurm(partitions=lines), partition=None)["partition"].status == FAILED


def test_preemption_that_the_profile_does_not_know_of_is_a_warning() -> None:
    check = examine(FakeSlurm(PreemptType="preempt/partition_prio"))["preemption"]
    assert (check.status, check.remedy) == (WARNING, 'set preempt_mode: "requeue"')


@pytest.mark.parametrize(
    ("status", "configuration", "wanted"),
    [
        ("squeue", {}, PASSED),
        ("squeue", {"MinJobAge": "60 sec"}, WARNING),
        ("sacct", {"MinJobAge": "60 sec"}, PASSED),
        ("sacct", {"AccountingStorageType": "accounting_storage/none"}, FAILED),
    ],
)
def test_who_tells_the_plugin_of_ended_jobs(status: str, configuration: dict[str, str], wanted: str) -> None:
    assert examine(FakeSlurm(**configuration), status=status)["ended jobs"].status == wanted


@pytest.mark.parametrize("row", [line for line in CASES.read_text().splitlines() if line[:1] not in ("", "#")])
def test_gres_of_nodes_as_sites_write_it(row: str) -> None:
    gres, wanted = row.split("\t")
    count = 8 if "8" in wanted.split(";")[0] else int(wanted.split()[1].rstrip(";")) if wanted != "none" else 1
    check = examine(FakeSlurm(gres=[gres]), processes_per_node=count, cpus_per_process=1)["GPUs"]
    if wanted == "none":
        assert check.status == FAILED
        assert "the partition has none" in check.found
    elif "mixed" in wanted:
        assert check.status == FAILED
        assert "turing" in check.found and "ampere" in check.found
    else:
        kind = wanted.split()[0]
        assert check.status == (PASSED if kind in ("untyped", "h100") else WARNING)
        assert "untyped" in wanted or kind in check.found
        more = examine(FakeSlurm(gres=[gres]), processes_per_node=count + 1, cpus_per_process=1)["GPUs"]
        assert more.status == FAILED


@pytest.mark.parametrize(
    ("name", "status"), [("nvidia_h100_80gb_hbm3", PASSED), ("hopper", PASSED), ("a100", WARNING), ("rtx", WARNING)]
)
def test_sites_name_one_card_differently(name: str, status: str) -> None:
    assert examine(FakeSlurm(gres=[f"gpu:{name}:4"]))["GPUs"].status == status


def test_the_request_that_is_tried_is_the_training_s_own() -> None:
    options = request_options(cluster(account="0123456", constraint="gpu80", memory_per_node="0"), 2)
    for wanted in (
        "--partition=gpu",
        "--account=0123456",
        "--constraint=gpu80",
        "--nodes=2",
        "--ntasks-per-node=4",
        "--cpus-per-task=16",
        "--gpus-per-node=4",
        "--mem=0",
        "--time=1440",
        "--requeue",
    ):
        assert wanted in options
    assert all("=" in option or option == "--requeue" for option in options)


def test_the_stages_requests_are_tried_too() -> None:
    facts = cluster(account="0123456", reservation="week", cpu_stages=CpuStages(partition="cpu"))
    requests = dict(stage_requests(facts, OPTIONS))
    assert requests["tokenize"] == [
        "--time=240",
        "--mem=32000",
        "--partition=cpu",
        "--account=0123456",
        "--cpus-per-task=8",
        "--ntasks=1",
    ]
    assert {"--partition=gpu", "--gres=gpu:1", "--reservation=week"} <= set(requests["evaluate"])
    refused = examine(FakeSlurm(test_only=Answer(1, "", "allocation failure: Memory specification can not be met")))
    assert refused["request of convert"].status == FAILED
    assert "set-resources" in refused["request of convert"].remedy
    computed = {"set-resources": {"convert": {"runtime": "attempt * 60"}}}
    assert not any(word.startswith("--time") for word in dict(stage_requests(facts, computed))["convert"])
