"""A benchmark that starts itself again as the ranks of a process group."""

from __future__ import annotations

import os
import socket
import subprocess
import sys


def run_as_ranks(module: str, size: int) -> None:
    """Run ``module`` with this process's arguments on ``size`` ranks of this machine; SystemExit where one fails."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    shared = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = [sys.executable, "-W", "ignore", "-m", module, *sys.argv[1:]]
    environments = [{**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(size)]
    ranks = [subprocess.Popen(command, env=environment) for environment in environments]
    if any([rank.wait() for rank in ranks]):
        raise SystemExit("a rank failed; its message is above")
