"""Starts real training processes, as a launcher does, and waits for them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from neox_train.config.layout import RunFolder
from tests.gloo import find_port, make_environment

PROGRAM = """
import signal, sys
from neox_train.errors import UserError
from neox_train.training.entry import train_rank
from neox_train.training.stop import request_stop
signal.signal(signal.SIGTERM, lambda number, frame: request_stop("SIGTERM"))
try:
    print("outcome:", train_rank(sys.argv[1]), flush=True)
except UserError as error:
    print("error:", error, file=sys.stderr, flush=True)
    sys.exit(error.exit_code)
"""


@dataclass
class Ranks:
    """Live training processes of one run, by rank."""

    processes: list[subprocess.Popen[str]]

    def wait(self, timeout_seconds: float = 180.0) -> list[tuple[int, str]]:
        """Exit code and printed text of every rank; kills all of them when the time is up."""
        deadline = time.monotonic() + timeout_seconds
        try:
            return [(process.wait(max(0.1, deadline - time.monotonic())), _read(process)) for process in self.processes]
        finally:
            self.kill()

    def kill(self, *ranks: int) -> None:
        """SIGKILL to these ranks, to all without any."""
        for rank in ranks or range(len(self.processes)):
            self.processes[rank].kill()
        for rank in ranks or range(len(self.processes)):
            self.processes[rank].wait()

    def ask_to_stop(self, rank: int) -> None:
        """SIGTERM to one rank."""
        self.processes[rank].send_signal(signal.SIGTERM)

    def wait_until(self, condition: Callable[[], bool], timeout_seconds: float = 180.0) -> None:
        """Return as soon as ``condition`` holds; fails when the ranks end or the time is up first."""
        deadline = time.monotonic() + timeout_seconds
        while not condition():
            ended = [process.poll() for process in self.processes]
            if any(code is not None for code in ended) or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"ranks ended with {ended}: {[_read(process) for process in self.processes]}")
            time.sleep(0.005)


def start_ranks(run: RunFolder, world_size: int) -> Ranks:
    """Start every rank of a run on this machine."""
    port = find_port()
    logs = run.path / "rank-logs"
    logs.mkdir(exist_ok=True)
    processes = []
    for rank in range(world_size):
        environment = make_environment(rank, world_size, port)
        with open(logs / f"{time.monotonic_ns()}-{rank}.txt", "w") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(run.path)], stdout=log, stderr=log, env=environment, text=True
            )
        process.log = Path(log.name)  # type: ignore[attr-defined]
        processes.append(process)
    return Ranks(processes)


def _read(process: subprocess.Popen[str]) -> str:
    return process.log.read_text()  # type: ignore[attr-defined]
