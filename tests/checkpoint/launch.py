"""Starts the ranks of ``rank_worker`` as real processes over gloo and collects what each of them saw."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

TIME_LIMIT_SECONDS = 240
REPOSITORY = Path(__file__).resolve().parents[2]


def launch(folder: Path, name: str, tasks: list[dict[str, Any]], *, ranks: int) -> list[list[dict[str, Any]]]:
    """Run the tasks in order on every rank; result[rank][task]. Fails with the log of the first rank that failed."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps(tasks))
    port = _find_port()
    processes = [_start(path, rank, ranks, port) for rank in range(ranks)]
    try:
        codes = [process.wait(timeout=TIME_LIMIT_SECONDS) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for rank, code in enumerate(codes):
        assert code == 0, _log(path, rank).read_text()[-4000:]
    return [json.loads(path.with_name(f"{path.stem}-rank{rank}.json").read_text()) for rank in range(ranks)]


def _start(path: Path, rank: int, ranks: int, port: int) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "DS_ACCELERATOR": "cpu",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "tests.checkpoint.rank_worker", str(path)]
    with open(_log(path, rank), "wb") as log:
        return subprocess.Popen(command, env=environment, cwd=REPOSITORY, stdout=log, stderr=subprocess.STDOUT)


def _log(path: Path, rank: int) -> Path:
    return path.with_name(f"{path.stem}-rank{rank}.log")


def _find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
