"""The test cluster itself: nodes, fake GPUs, an attempt's record."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from neox_train.cluster.nodelist import expand_nodes

from .lab import SlurmLab

pytestmark = pytest.mark.slurm

NODE_LISTS = Path(__file__).parent.parent / "cases" / "11-nodelists.tsv"


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


def test_node_lists_are_read_as_slurm_reads_them(slurm: SlurmLab) -> None:
    rows = [line.split("\t")[0] for line in NODE_LISTS.read_text().splitlines() if not line.startswith("#")]
    for text in rows:
        assert expand_nodes(text) == slurm.run("scontrol", "show", "hostnames", text).stdout.split(), text


def test_the_controller_records_each_attempt(slurm: SlurmLab) -> None:
    slurm.run("srun", "-J", "recorded", "true")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        states = [attempt["JobState"] for attempt in slurm.list_attempts() if attempt.get("Name") == "recorded"]
        if states:
            break
        time.sleep(0.2)
    assert states == ["COMPLETED"]
