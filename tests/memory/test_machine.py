"""All ranks of a training together against the memory of the machine they start on."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from neox_train.errors import DoesNotFitError
from neox_train.memory.estimate import estimate_memory
from neox_train.memory.machine import CPU_SHARED_BYTES, Machine, MachineUse, read_machine
from neox_train.memory.stage import require_passed
from tests.memory.plans import make_cluster, make_config, make_gpu_cluster

GIB = 1 << 30
LARGE = Machine(64 * GIB, 60 * GIB)


def test_what_ranks_share_counts_once() -> None:
    use = MachineUse(4, 3 * GIB, GIB, Machine(10 * GIB, 9 * GIB))
    assert (use.needed, use.fits, use.word(), use.most_processes) == (9 * GIB, True, "", 4)
    more = replace(use, processes=5)
    assert (more.needed, more.fits) == (11 * GIB, False)
    assert more.word() == (
        "5 processes need 11.00 GiB together (3.00 GiB each), and this machine has 10.00 GiB; start at most 4 "
        "(--processes, or processes_per_node of the cluster file), or make a rank smaller"
    )
    busy = replace(use, machine=Machine(10 * GIB, 2 * GIB))
    assert busy.fits and "2.00 of this machine's 10.00 GiB are free now; end other work" in busy.word()
    alone = MachineUse(1, 12 * GIB, GIB, Machine(10 * GIB, 9 * GIB))
    assert alone.word().endswith("10.00 GiB; make a rank smaller")


def test_many_processes_are_refused_before_they_start() -> None:
    config, cluster = make_config(world_size=200), make_cluster(processes_per_node=200)
    estimate = estimate_memory(config, cluster, machine=Machine(16 * GIB, 12 * GIB))
    assert estimate.verdict == "fits" and not estimate.passes
    with pytest.raises(DoesNotFitError, match=r"run x does not fit: 200 processes need .* this machine has 16\.00 GiB"):
        require_passed(estimate, subject="run x", force=False)
    require_passed(estimate, subject="run x", force=True)
    assert estimate.machine is not None and 0 < estimate.machine.most_processes < 200
    fewer = estimate.machine.most_processes
    again = make_cluster(processes_per_node=fewer)
    assert estimate_memory(make_config(world_size=fewer), again, machine=Machine(16 * GIB, GIB)).passes


def test_estimates_of_other_machines_do_not_ask_this_one() -> None:
    assert estimate_memory(make_config(), make_cluster()).machine is None
    elsewhere = make_cluster(executor="slurm", partition="cpu")
    assert estimate_memory(make_config(), elsewhere, machine=Machine(GIB, GIB)).passes


def test_ranks_on_gpus_need_the_hosts_memory() -> None:
    cluster = make_gpu_cluster(executor="local", processes_per_node=2)
    estimate = estimate_memory(make_config(), cluster, machine=LARGE)
    assert estimate.machine is not None
    assert estimate.machine.needed == 2 * sum(estimate.host.values()) and estimate.passes


def test_without_a_budget_a_ranks_share_of_the_machine_counts() -> None:
    cluster = make_cluster(memory_gib_per_process=None, processes_per_node=2)
    estimate = estimate_memory(make_config(), cluster, machine=LARGE)
    assert estimate.budget == 32 * GIB and "of the 32.00 GiB that are its share of this machine" in estimate.sentence


def test_the_order_of_pair_files_is_a_table_on_each_rank(tmp_path: Path) -> None:
    for suffix in (".bin", ".idx"):
        (tmp_path / f"tokens{suffix}").touch()
    keys = {"data_path": str(tmp_path / "tokens"), "train_iters": 10**12}
    estimate = estimate_memory(make_config(**keys), make_cluster(), machine=LARGE)
    assert estimate.machine is not None and estimate.machine.each == estimate.total + 8 * 10**12 * 8
    assert not estimate.passes
    folder = estimate_memory(make_config(**{**keys, "data_path": str(tmp_path)}), make_cluster(), machine=LARGE)
    assert folder.machine is not None and folder.machine.each == folder.total


def test_this_machine_is_what_the_kernel_tells() -> None:
    machine = read_machine()
    assert machine is not None
    told = re.search(r"MemTotal: +(\d+) kB", Path("/proc/meminfo").read_text())
    assert told is not None and 0 < machine.available <= machine.total <= int(told[1]) * 1024
    assert machine.total > CPU_SHARED_BYTES


@pytest.mark.parametrize("deep", [True, False])
def test_limits_of_a_job_or_container_count(tmp_path: Path, deep: bool) -> None:
    group = tmp_path / "sys/fs/cgroup/job_7" / ("step_0/task" if deep else "")
    (group / "").mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"0::/job_7{'/step_0/task' if deep else ''}\n")
    limited = tmp_path / "sys/fs/cgroup/job_7"
    (limited / "memory.max").write_text(f"{256 << 20}\n")
    (limited / "memory.current").write_text(f"{100 << 20}\n")
    (limited / "memory.stat").write_text(f"anon 1\ninactive_file {40 << 20}\n")
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("max\n")
    assert read_machine(tmp_path) == Machine(256 << 20, 196 << 20)


def test_limits_of_the_older_kind_count(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup/memory/slurm/job_7"
    group.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("5:devices:/\n4:memory:/slurm/job_7\n0::/\n")
    (group / "memory.limit_in_bytes").write_text(f"{512 << 20}\n")
    (group / "memory.usage_in_bytes").write_text(f"{100 << 20}\n")
    (group.parent / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert read_machine(tmp_path) == Machine(512 << 20, 412 << 20)
