"""A training on this machine: submitit's local executor, watched through the operating system.

submitit starts a controller process that starts the ranks and waits for all of them. It neither ends the others when
one dies nor survives its own death tidily, so the ranks' processes are watched here.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import submitit

from neox_train.cluster.environment import clean_environment, job_variables
from neox_train.cluster.jobs import ENDED, RUNNING, JobState
from neox_train.cluster.parameters import local_parameters, rank_python
from neox_train.cluster.rank_record import RUNNING as RANK_RUNNING
from neox_train.cluster.rank_record import RankRecord, read_records
from neox_train.cluster.worker import run_rank
from neox_train.config.cluster import Cluster
from neox_train.config.layout import RunFolder
from neox_train.config.variables import LAUNCHER_PID

_POLITE_SECONDS = 5.0
"""For ranks that notice a lost peer by themselves and write why; then they are killed."""
_CLOCK_SECONDS = 1.0
"""A process wrote its record after it started; the kernel's and the clock's seconds differ by less than this."""


class LocalJob:
    """Ranks of one attempt on this machine."""

    survives_launcher = False
    cluster_name: str | None = None
    poll_seconds = 0.5

    def __init__(self, job: submitit.LocalJob[str], folder: Path, processes: int) -> None:
        self._job = job
        self.job_id: str = job.job_id
        self.folder = folder
        self.processes = processes
        self._ranks: dict[int, psutil.Process] = {}
        self._controller = psutil.Process(int(self.job_id))

    @classmethod
    def submit(cls, run: RunFolder, cluster: Cluster, nodes: int, folder: Path) -> LocalJob:
        """Start the ranks; they end when the calling process does."""
        parameters = local_parameters(cluster, nodes)
        executor = submitit.LocalExecutor(folder=folder.absolute(), python=rank_python(cluster))
        executor.update_parameters(**parameters)
        variables = {**job_variables(cluster), LAUNCHER_PID: str(os.getpid())}
        with clean_environment(variables), _signals_ignored():
            job = executor.submit(run_rank, str(run.path.absolute()))
        return cls(job, folder, parameters["tasks_per_node"])

    def state(self) -> JobState:
        """Running while the controller lives; a rank that outlives its controller is found by ``end``."""
        self._find_ranks()
        return JobState(ENDED if self._job.done() else RUNNING)

    def vanished_ranks(self) -> list[int]:
        """Ranks whose process is gone without a word."""
        gone = [rank for rank, process in self._ranks.items() if not _is_alive(process)]
        if not gone:
            return []
        # Read after looking for the process: a rank writes its end before it exits.
        records = read_records(self.folder, self.job_id, self.processes)
        return [rank for rank in gone if rank not in records or records[rank].outcome == RANK_RUNNING]

    def ends_with_its_first_rank(self) -> bool:
        """No: submitit's controller waits for all of them."""
        return False

    def request_stop(self) -> None:
        """SIGTERM to every rank: they save and stop together."""
        self._find_ranks()
        for process in self._ranks.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGTERM)

    def end(self) -> None:
        """Let the ranks notice by themselves for a few seconds, then kill what is left, the controller last."""
        self._find_ranks()
        processes = list(self._ranks.values())
        _, alive = psutil.wait_procs(processes, timeout=_POLITE_SECONDS)
        for process in [*alive, self._controller]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(alive, timeout=_POLITE_SECONDS)
        with contextlib.suppress(psutil.TimeoutExpired, psutil.NoSuchProcess):
            self._controller.wait(timeout=_POLITE_SECONDS)

    def _find_ranks(self) -> None:
        """Remember the controller's children while they are there: afterwards nobody knows whose they were."""
        if len(self._ranks) == self.processes:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in self._controller.children():
                with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied, KeyError, ValueError):
                    self._ranks.setdefault(int(child.environ()["SUBMITIT_LOCAL_GLOBALID"]), child)
        for rank, record in read_records(self.folder, self.job_id, self.processes).items():
            if rank not in self._ranks and (process := find_process(record)):
                self._ranks[rank] = process


def find_process(record: RankRecord) -> psutil.Process | None:
    """The process that wrote a record; None when it is gone, though another may have its number by now."""
    if record.host != socket.gethostname():
        return None
    try:
        process = psutil.Process(record.pid)
        return process if process.create_time() <= record.started + _CLOCK_SECONDS else None
    except psutil.NoSuchProcess:
        return None


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@contextlib.contextmanager
def _signals_ignored() -> Iterator[None]:
    """Ignore the terminal's signals while the controller starts: an ignored signal stays ignored in its children.

    Ctrl-C and a hang-up reach every process of the terminal; only the launcher may act on them, so that the ranks
    save before they end.
    """
    names = (signal.SIGINT, signal.SIGHUP)
    before = [signal.signal(name, signal.SIG_IGN) for name in names]
    try:
        yield
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)
