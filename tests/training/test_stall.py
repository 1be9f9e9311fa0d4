"""Ranks that make no progress, in processes of their own: the watch ends the one it runs in."""

import subprocess
import sys

import pytest

from neox_train.training.stall import STALLED_EXIT_CODE

HEAD = """
import time
from neox_train.training.stall import StallWatch, report_stalls_to
report_stalls_to(lambda sentence: print("reported:", sentence, flush=True))
def read_batch():
    time.sleep(600)
"""


def run(body: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", HEAD + body], capture_output=True, text=True, timeout=120, check=False)


def test_a_stuck_rank_ends_with_its_stack_rank_and_step() -> None:
    result = run("with StallWatch(3, limit_seconds=0.4) as watch:\n    watch.beat(7)\n    read_batch()\n")
    assert result.returncode == STALLED_EXIT_CODE
    assert "reported: rank 3 made no progress for" in result.stdout
    assert "after step 7; it was in <string>:6 read_batch" in result.stdout
    assert "in read_batch" in result.stderr


@pytest.mark.parametrize(
    "body",
    [
        # Beats keep it alive, leaving ends the watch, 0 switches it off.
        "with StallWatch(0, limit_seconds=2.0) as watch:\n    for i in range(30):\n        watch.beat(i)\n"
        "        time.sleep(0.1)\n",
        "with StallWatch(0, limit_seconds=0.3):\n    pass\ntime.sleep(1.0)\n",
        "with StallWatch(0, limit_seconds=0.0):\n    time.sleep(0.5)\n",
    ],
    ids=["beats", "left", "off"],
)
def test_a_living_rank_is_left_alone(body: str) -> None:
    result = run(body)
    assert (result.returncode, result.stdout) == (0, "")


PEERS = """
import os, socket, subprocess, sys
import torch, torch.distributed as dist
parent = os.getppid()
rank = int(sys.argv[1]) if len(sys.argv) > 1 else 0
if rank == 0:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1])}
    subprocess.Popen([sys.executable, "-c", os.environ["SCRIPT"], "1"])
dist.init_process_group("gloo", rank=rank, world_size=2)
while rank == 1 and os.getppid() == parent:
    time.sleep(0.1)
if rank == 1:
    sys.exit()
with StallWatch(0, limit_seconds=0.5):
    dist.all_reduce(torch.zeros(1))
"""


@pytest.mark.distributed
def test_a_rank_in_a_collective_says_that_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRIPT", HEAD + PEERS)
    result = run(PEERS)
    assert result.returncode == STALLED_EXIT_CODE
    assert "it was waiting for other ranks" in result.stdout
