"""Starts the ranks of a layout job and waits for them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.training.ranks import EXPORTED


def run_layouts(job: Path, size: int, *, worker: str = "tests.training.layout_worker") -> None:
    """Run the module ``worker`` on ``size`` gloo processes; fails with the log of a rank that failed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = []
    for rank in range(size):
        values = (str(rank), str(size), str(rank), "127.0.0.1", str(port))
        environment = {**os.environ, **dict(zip(EXPORTED, values, strict=True))}
        with open(job.with_suffix(f".{rank}.log"), "w") as log:
            command = [sys.executable, "-m", worker, str(job)]
            ranks.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
    try:
        codes = [rank.wait(timeout=240) for rank in ranks]
    finally:
        for process in ranks:
            process.kill()
    assert codes == [0] * size, job.with_suffix(f".{codes.index(max(codes))}.log").read_text()[-3000:]
