"""Runs a module of the tests as real processes over gloo, and waits for them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

EXPORTED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
_REPOSITORY = Path(__file__).resolve().parents[1]
_TIME_LIMIT_SECONDS = 240


def run_ranks(worker: str, job: Path, size: int) -> None:
    """Run the module ``worker`` with the file ``job`` on ``size`` ranks; fails with the log of a rank that failed."""
    port = find_port()
    ranks = []
    for rank in range(size):
        with open(_log(job, rank), "w") as log:
            command = [sys.executable, "-W", "ignore", "-m", worker, str(job)]
            environment = make_environment(rank, size, port)
            ranks.append(subprocess.Popen(command, env=environment, cwd=_REPOSITORY, stdout=log, stderr=log))
    try:
        codes = [rank.wait(timeout=_TIME_LIMIT_SECONDS) for rank in ranks]
    finally:
        for process in ranks:
            process.kill()
    failed = [rank for rank, code in enumerate(codes) if code != 0]
    assert not failed, "".join(f"rank {rank}:\n{_log(job, rank).read_text()[-4000:]}" for rank in failed)


def make_environment(rank: int, size: int, port: int) -> dict[str, str]:
    """This process's environment with what a launcher tells each rank."""
    values = (str(rank), str(size), str(rank), "127.0.0.1", str(port))
    return {**os.environ, **dict(zip(EXPORTED, values, strict=True))}


def find_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _log(job: Path, rank: int) -> Path:
    return job.with_suffix(f".{rank}.log")
