from __future__ import annotations

import copy
from typing import Any

import pytest

from neox_train.cluster.check import FAILED, PASSED, SKIPPED, WARNING
from neox_train.cluster.gpu_table import KNOWN_GPUS
from neox_train.cluster.node_checks import check_bandwidth, check_node, check_versions
from neox_train.config.cluster import Cluster
from neox_train.config.cluster_records import Preflight

H100 = next(gpu for gpu in KNOWN_GPUS if gpu.key == "h100").build("h100")
DEVICE = {"name": "NVIDIA H100 80GB HBM3", "memory_gib": 79.11, "free_gib": 78.6, "capability": 9.0}
FACTS: dict[str, Any] = {
    "host": "gpu07",
    "address": "10.1.0.7",
    "python": "3.11.7",
    "executable": "/opt/python",
    "packages": {"neox-train": "0.1", "submitit": "1.5.4", "torch": "2.9.0"},
    "code": "abc",
    "cpus": 16,
    "driver_gpus": [{"name": "NVIDIA H100 80GB HBM3", "memory": "81559 MiB", "driver": "570.10"}],
    "torch": {"version": "2.9.0", "cuda": "12.8", "available": True, "device_count": 4, "devices": [DEVICE]},
    "results": {"path": "/scratch/r", "free_bytes": 10**12},
    "scratch": {"path": "/tmp", "free_bytes": 10**12},
}


def cluster(**changes: object) -> Cluster:
    facts = {"executor": "slurm", "device": "cuda", "gpu": H100, "processes_per_node": 4, "cpus_per_process": 16}
    return Cluster.model_validate({**facts, **changes})


def changed(path: str, value: object) -> dict[str, Any]:
    facts = copy.deepcopy(FACTS)
    *blocks, last = path.split(".")
    place = facts
    for block in blocks:
        place = place[block]
    place[last] = value
    return facts


def test_a_node_that_fits() -> None:
    assert {check.status for check in check_node(FACTS, cluster())} == {PASSED}


@pytest.mark.parametrize(
    ("path", "value", "name", "words"),
    [
        ("cpus", 2, "cores of a process", ("2, wanted 16", "--cpus-per-task")),
        ("results", {"path": "/r", "error": "Read-only file system"}, "results on the node", ("Read-only", "results:")),
        ("scratch", {"path": "/tmp", "free_bytes": 2**29}, "node-local scratch", ("0.5 GiB free, floor 1", "exclude")),
        ("torch", {"error": "ModuleNotFoundError: No module named 'torch'"}, "torch on the node", ("No module named",)),
        ("torch.cuda", None, "torch on the node", ("built without CUDA",)),
        ("torch.available", False, "torch on the node", ("CUDA 12.8, driver 570.10: no usable GPU", "older")),
        ("torch.device_count", 1, "GPUs of the node", ("1 visible, 4 wanted", "--gpus-per-task")),
        ("torch.devices", [{**DEVICE, "name": "NVIDIA A100-SXM4-80GB"}], "GPU model", ("A100", "wanted H100")),
        ("torch.devices", [{**DEVICE, "capability": 8.0}], "GPU model", ("capability 8.0, wanted 9.0",)),
        ("torch.devices", [{**DEVICE, "memory_gib": 39.4}], "GPU memory", ("39.4 GiB", "set gpu.memory_gib: 39.4")),
        ("torch.devices", [{**DEVICE, "free_gib": 40.0}], "GPU memory", ("51% of 79.11 GiB", "another process")),
    ],
)
def test_what_stops_a_training(path: str, value: object, name: str, words: tuple[str, ...]) -> None:
    failures = [check for check in check_node(changed(path, value), cluster()) if check.status == FAILED]
    assert [check.name for check in failures] == [name]
    for word in words:
        assert word in failures[0].sentence()


def test_a_job_without_gpus_is_told_from_an_old_driver() -> None:
    facts = {**changed("torch.available", False), "driver_gpus": []}
    assert any("the job got no GPU" in check.remedy for check in check_node(facts, cluster()))


def test_a_loopback_address_is_a_warning() -> None:
    checks = {check.name: check for check in check_node(changed("address", "127.0.1.1"), cluster())}
    assert checks["address"].status == WARNING
    checks = {check.name: check for check in check_node(changed("address", "does not resolve (x)"), cluster())}
    assert checks["address"].status == WARNING


def test_no_gpu_is_wanted_on_a_cpu_partition() -> None:
    facts = changed("torch", {"version": "2.9.0+cpu", "cuda": None, "devices": []})
    cpu = Cluster(executor="local", device="cpu", cpus_per_process=16)
    assert {check.status for check in check_node(facts, cpu)} == {PASSED}


@pytest.mark.parametrize(
    ("path", "value", "python", "status", "words"),
    [
        ("python", "3.11.9", None, PASSED, "3.11.9"),
        ("python", "3.9.2", None, FAILED, "3.9.2 at /opt/python, here 3.11.7"),
        ("python", "3.12.1", "apptainer exec image.sif python", WARNING, "3.12.1"),
        ("code", "def", None, FAILED, "another neox-train"),
        ("packages.submitit", "1.4.0", None, FAILED, "submitit 1.4.0, here 1.5.4"),
        ("packages.torch", "2.9.0+cu130", None, WARNING, "torch 2.9.0+cu130, here 2.9.0"),
    ],
)
def test_login_side_and_compute_side(path: str, value: str, python: str | None, status: str, words: str) -> None:
    checks = check_versions(FACTS, changed(path, value), cluster(python=python))
    assert any(check.status == status and words in check.found for check in checks)
    assert status in (PASSED, WARNING) or any(check.remedy for check in checks if check.status == FAILED)


@pytest.mark.parametrize(("floor", "status"), [(None, PASSED), (100.0, PASSED), (300.0, FAILED)])
def test_bandwidth_against_the_floor(floor: float | None, status: str) -> None:
    measured = {"backend": "nccl", "ranks": 8, "gb_per_second": 210.0}
    check = check_bandwidth(measured, cluster(preflight=Preflight(all_reduce_gb_per_second=floor)))
    assert check.status == status
    assert "210.00 GB/s bus bandwidth, nccl, 8 ranks" in check.found


def test_bandwidth_that_was_not_measured() -> None:
    assert check_bandwidth({"backend": "nccl", "ranks": 1, "gb_per_second": 0.0}, cluster()).status == SKIPPED
    assert check_bandwidth({"error": "DistNetworkError: x"}, cluster()).status == FAILED
