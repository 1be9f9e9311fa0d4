"""Doctor on a real Slurm: what fits passes, with a job of two nodes; what does not is named with a remedy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .lab import SlurmLab

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(240)]

CLUSTER = """
name: lab
executor: slurm
device: cpu
processes_per_node: 2
cpus_per_process: 2
memory_per_node: 2G
partition: h100
results: {results}
accounting: false
preempt_mode: requeue
time_limit_minutes: 30
"""


def examine(tmp_path: Path, *options: str, extra: str = "", code: int) -> dict[str, tuple[str, str, str]]:
    """Doctor's table by the name of the check: status, found, what to do."""
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER.format(results=tmp_path / "results") + extra)
    command = [sys.executable, "-m", "neox_train.cli", "doctor", "--profile", str(file), *options]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert result.returncode == code, result.stdout + result.stderr
    return _read_table(result.stdout)


def _read_table(text: str) -> dict[str, tuple[str, str, str]]:
    rows: list[list[str]] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("│")[1:-1]]
        if len(cells) != 4:
            continue
        if cells[0] or not rows:
            rows.append(cells)
        else:
            rows[-1] = [f"{old} {new}".strip() for old, new in zip(rows[-1], cells, strict=True)]
    return {name: (status, found, remedy) for name, status, found, remedy in rows}


def test_a_job_of_two_nodes_answers_for_every_rank(slurm: SlurmLab, tmp_path: Path) -> None:
    floor = "preflight: {all_reduce_gb_per_second: 0.000001}\n"
    checks = examine(tmp_path, "--nodes", "2", extra=floor, code=0)
    assert {status for status, _, _ in checks.values()} <= {"ok", "warning", "skipped"}
    assert checks["job"][1].endswith("4 ranks answered")
    assert "using 8 processors on nodes node" in checks["request"][1]
    assert "gloo, 4 ranks, floor 1e-06" in checks["all-reduce"][1]
    (folder,) = (tmp_path / "results" / "doctor").iterdir()
    facts = [json.loads((folder / f"probe-{rank}.json").read_text()) for rank in range(4)]
    assert len({fact["host"] for fact in facts}) == 2
    assert len({fact["rendezvous"] for fact in facts}) == 1
    assert all(fact["cpus"] >= 2 for fact in facts)


def test_a_slow_network_fails_with_a_remedy(slurm: SlurmLab, tmp_path: Path) -> None:
    floor = "preflight: {all_reduce_gb_per_second: 100000}\n"
    status, found, remedy = examine(tmp_path, extra=floor, code=1)["all-reduce"]
    assert status == "failed"
    assert "floor 100000" in found
    assert "exclude the node" in remedy


def test_a_request_that_slurm_refuses_is_not_submitted(slurm: SlurmLab, tmp_path: Path) -> None:
    before = slurm.run("squeue", "-h", "-a", "-t", "all", "-o", "%i").stdout
    checks = examine(tmp_path, "--nodes", "9", "--config", "time_limit_minutes=600", code=1)
    assert checks["time limit"] == ("failed", "600 min, h100 allows 120", "set time_limit_minutes: 120")
    assert checks["nodes"][1] == "a run wants 9, h100 gives 4"
    assert checks["request"][0] == "failed"
    assert checks["job"] == ("skipped", "not submitted: mend the failures first", "")
    assert slurm.run("squeue", "-h", "-a", "-t", "all", "-o", "%i").stdout == before


def test_a_partition_that_is_not_there(slurm: SlurmLab, tmp_path: Path) -> None:
    checks = examine(tmp_path, "--no-job", "--config", "partition=h101", code=1)
    assert checks["partition"][0] == "failed"
    assert "one of h100, debug" in checks["partition"][2]
    assert checks["job"] == ("skipped", "left out (--no-job)", "")


def test_an_interpreter_that_does_not_start_is_told_from_its_log(slurm: SlurmLab, tmp_path: Path) -> None:
    checks = examine(tmp_path, extra="python: /nowhere/bin/python\n", code=1)
    assert checks["compute-side Python"][0] == "warning"
    status, found, _ = checks["job"]
    assert status == "failed"
    assert "2 of 2 ranks did not answer" in found


def test_a_job_that_waits_too_long_is_cancelled(slurm: SlurmLab, tmp_path: Path) -> None:
    slurm.run("scontrol", "update", "partitionname=h100", "state=DOWN")
    try:
        checks = examine(tmp_path, "--wait-minutes", "0.02", code=1)
    finally:
        slurm.run("scontrol", "update", "partitionname=h100", "state=UP")
    assert checks["partition"][0] == "warning"
    status, found, remedy = checks["job"]
    assert status == "failed"
    assert "PENDING" in found and found.endswith("cancelled")
    assert "--wait-minutes" in remedy
    assert slurm.run("squeue", "-h", "-t", "pending", "--name", "neox-train-doctor", "-o", "%i").stdout == ""
