"""A real hang of two processes over gloo, told from what torch's flight recorder held."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from neox_train.training.stall import STALLED_EXIT_CODE
from tests.gloo import find_port, make_environment


@pytest.mark.distributed
def test_a_hang_names_rank_collective_and_step(tmp_path: Path) -> None:
    port = find_port()
    command = [sys.executable, "-W", "ignore", "-m", "tests.training.flight_worker", str(tmp_path)]
    ranks = [subprocess.Popen(command, env=make_environment(rank, 2, port)) for rank in range(2)]
    try:
        codes = [process.wait(timeout=120) for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    # The first to leave ends the other's wait, which has dumped by then.
    assert STALLED_EXIT_CODE in codes and 0 not in codes
    waiting, absent = ((tmp_path / f"sentence-{rank}").read_text() for rank in range(2))
    called = "all_reduce number 3 of group dp ([8, 3] Float), called at flight_worker.py:"
    assert "after step 2; it was waiting for other ranks" in waiting
    assert called in waiting
    assert "all_reduce" not in absent
    doctor = [sys.executable, "-m", "neox_train.cli", "doctor", "--flight-recorder", str(tmp_path)]
    told = subprocess.run(doctor, capture_output=True, text=True, check=True).stdout
    first, second = told.splitlines()
    assert first == "the ranks stopped in step 3"
    assert second.startswith(f"rank 1 did not enter {called}")
    assert second.endswith("in which rank 0 waited")
