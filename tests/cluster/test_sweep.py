"""A sweep of collectives by doctor's own job on this machine, and its chart."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from neox_train.cluster.check import FAILED, PASSED, SKIPPED
from neox_train.cluster.doctor_job import run_probe
from neox_train.cluster.sweep import KINDS, bus_bytes
from neox_train.cluster.sweep_chart import check_sweep, draw_text, name_size
from neox_train.config.cluster import Cluster
from neox_train.config.cluster_records import Preflight

FLOOR = Cluster(preflight=Preflight(all_reduce_gb_per_second=5))


def row(kind: str, size: int, rate: float) -> dict[str, object]:
    return {"kind": kind, "bytes": size, "seconds": 0.001, "gb_per_second": rate, "ranks": 2}


def test_bus_bandwidth_follows_nccl_tests() -> None:
    assert bus_bytes("all_reduce", 800, 8) == 1400
    assert bus_bytes("all_gather", 800, 8) == bus_bytes("reduce_scatter", 800, 8) == 700
    assert bus_bytes("p2p", 800, 8) == 800


@pytest.mark.distributed
def test_doctor_sweeps_in_its_job(tmp_path: Path) -> None:
    told: list[str] = []
    cluster = Cluster(processes_per_node=2, memory_gib_per_process=4)
    checks = run_probe(cluster, tmp_path, 1, wait_minutes=2, tell=told.append, sweep_seconds=2)
    assert checks[-1].name == "sweep of collectives"
    assert checks[-1].status == PASSED
    (file,) = tmp_path.glob("doctor/*/sweep.json")
    rows = json.loads(file.read_text())["rows"]
    assert file.with_name("sweep.png").stat().st_size > 5000
    for kind in KINDS:
        own = [each for each in rows if each["kind"] == kind]
        assert [each["bytes"] for each in own[:2]] == [1024, 4096]
        assert all(math.isfinite(each["gb_per_second"]) and each["seconds"] > 0 for each in own)
        assert any(line.startswith(kind) and "GB/s" in line for line in told)


def test_the_best_all_reduce_is_held_against_the_floor() -> None:
    rows = [row("all_reduce", 1024, 0.1), row("all_reduce", 2**20, 4), row("p2p", 2**20, 100)]
    slow = check_sweep(rows, FLOOR)
    assert (slow.status, slow.found) == (FAILED, "all_reduce reaches 4 GB/s at 1 MiB, floor 5")
    assert check_sweep([*rows, row("all_reduce", 2**30, 6)], FLOOR).status == PASSED
    assert check_sweep([], FLOOR).status == SKIPPED


def test_the_chart_marks_the_floor() -> None:
    below, above, other = draw_text(
        [row("all_reduce", 1024, 0.1), row("all_reduce", 2**20, 50), row("p2p", 2**20, 100)], FLOOR
    )
    assert below.index("|") > below.rindex("#")
    assert above.index("|") < above.rindex("#")
    assert "|" not in other
    assert draw_text([], FLOOR) == []


def test_sizes_are_named_in_powers_of_two() -> None:
    assert [name_size(2**n) for n in (10, 18, 20, 30)] == ["1 KiB", "256 KiB", "1 MiB", "1 GiB"]
