"""The test cluster itself: nodes, fake GPUs, an attempt's record."""

from __future__ import annotations

import time

import pytest

from .lab import SlurmLab

pytestmark = pytest.mark.slurm


def test_a_job_gets_its_nodes_and_its_gpus(slurm: SlurmLab) -> None:
    answer = slurm.run(
        "srun",
        "-N2",
        "--ntasks-per-node=1",
        "--gpus-per-node=2",
        "sh",
        "-c",
        "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES",
    )
    lines = sorted(line.split() for line in answer.stdout.splitlines())
    assert [len(parts) for parts in lines] == [2, 2]
    assert lines[0][0] != lines[1][0]
    assert all(len(parts[1].split(",")) == 2 for parts in lines)


def test_the_controller_records_each_attempt(slurm: SlurmLab) -> None:
    slurm.run("srun", "-J", "recorded", "true")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        states = [attempt["JobState"] for attempt in slurm.list_attempts() if attempt.get("Name") == "recorded"]
        if states:
            break
        time.sleep(0.2)
    assert states == ["COMPLETED"]
