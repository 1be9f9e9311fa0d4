"""A real Slurm on this machine: munged, slurmctld and four slurmd, started for a test session and torn down after it.

Every "node" is this host under its own port. GPUs are character devices that nothing opens, so that counting and
CUDA_VISIBLE_DEVICES are real while the training runs on the CPU. Requeues take seconds because credentials expire
after five (``cred_expire``); with the default every requeue waits two minutes.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .accounting import Accounting

DAEMONS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "scontrol")
NODES = ("node1", "node2", "node3", "node4")
GPUS_PER_NODE = 8


def find_missing_daemons() -> list[str]:
    """Slurm programs that this machine lacks."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return [name for name in DAEMONS if shutil.which(name, path=path) is None]


@dataclass
class SlurmLab:
    """One running cluster. ``environment`` makes the Slurm commands talk to it."""

    folder: Path
    base_port: int
    preempt_sends_user_signal: bool = True
    keeps_accounts: bool = False
    min_job_age_seconds: int = 300
    """How long squeue knows an ended job."""
    processes: dict[str, Path] = field(default_factory=dict)

    @property
    def configuration(self) -> Path:
        """The cluster's slurm.conf."""
        return self.folder / "slurm.conf"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a client of this cluster needs."""
        return {"SLURM_CONF": str(self.configuration)}

    def start(self) -> None:
        """Start every daemon and wait until all nodes are idle."""
        for name in ("munge", "state", "pids", "log", "dev"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self._start_guard()
        (self.folder / "munge").chmod(0o711)
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self._write_configuration()
        self._start_munged()
        if self.keeps_accounts:
            self._accounting.start("lab")
        self._daemon("slurmctld", "-f", str(self.configuration))
        for node in NODES:
            self.start_node(node)
        self._await_idle()

    @property
    def _accounting(self) -> Accounting:
        return Accounting(self.folder, self.base_port, self.environment)

    def start_node(self, node: str) -> None:
        """Start (or restart) the slurmd of one node."""
        self._daemon("slurmd", "-N", node, "-f", str(self.configuration))

    def start_controller(self) -> None:
        """Start slurmctld again after ``stop_controller``."""
        self._daemon("slurmctld", "-f", str(self.configuration))

    def stop_controller(self) -> None:
        """Kill slurmctld outright, as a crash does."""
        _kill_pid_file(self.folder / "pids" / "slurmctld.pid", signal.SIGKILL)

    def kill_node(self, node: str) -> None:
        """Kill a node's slurmd, its step daemons and their tasks, as a power cut does."""
        _kill_pid_file(self.folder / "pids" / f"slurmd-{node}.pid", signal.SIGKILL)
        for pid in _find_processes_of_node(node, self.configuration):
            _signal(pid, signal.SIGKILL)

    def stop(self) -> None:
        """Cancel all jobs and stop every daemon."""
        self.run("scancel", "--user", getpass.getuser(), check=False)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and self.run("squeue", "-h", check=False).stdout.strip():
            time.sleep(0.2)
        pid_files = [self.folder / "pids" / f"slurmd-{node}.pid" for node in NODES]
        pid_files += [self.folder / "pids" / "slurmctld.pid", self.folder / "munge" / "pid"]
        for path in pid_files:
            _kill_pid_file(path, signal.SIGTERM)
        time.sleep(0.5)
        for path in pid_files:
            _kill_pid_file(path, signal.SIGKILL)
        if self.keeps_accounts:
            self._accounting.stop()
        self._guard.kill()
        self._guard.wait()

    def run(self, *command: str, check: bool = True, timeout_seconds: float = 30) -> subprocess.CompletedProcess[str]:
        """Run a Slurm command against this cluster."""
        return subprocess.run(
            command,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=check,
            timeout=timeout_seconds,
        )

    def state(self, job_id: str) -> str:
        """squeue's word on a job; empty when it knows none of that id."""
        return self.run("squeue", "-h", "-t", "all", "-j", job_id, "-o", "%T", check=False).stdout.strip()

    def displace(self, job_id: str) -> None:
        """Submit a job that takes every node, and return when Slurm has told ``job_id`` to make room."""
        self.run("sbatch", "-p", "urgent", "-N4", "--exclusive", "-o", "/dev/null", "--wrap", "true")
        self.wait_for(lambda: not self._is_undisturbed(job_id))

    def _is_undisturbed(self, job_id: str) -> bool:
        told = self.run("scontrol", "show", "job", job_id).stdout
        return "JobState=RUNNING" in told and "PreemptTime=None" in told

    def program(self, name: str) -> str:
        """Full path of a Slurm command."""
        found = shutil.which(name)
        assert found is not None
        return found

    def wait_for(self, condition: Callable[[], bool], timeout_seconds: float = 120) -> None:
        """Return as soon as ``condition`` holds; fails when the time is up."""
        deadline = time.monotonic() + timeout_seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"the time is up:\n{self.run('squeue', '-a', '-t', 'all', check=False).stdout}")
            time.sleep(0.1)

    def jobs_named(self, prefix: str) -> list[str]:
        """Ids of all jobs, ended ones too, whose name begins so."""
        lines = self.run("squeue", "-h", "-a", "-t", "all", "-o", "%i %j").stdout.splitlines()
        return [line.split()[0] for line in lines if line.split()[1].startswith(prefix)]

    def list_attempts(self) -> list[dict[str, str]]:
        """What the controller itself recorded of every attempt that ended (an oracle, not a production source)."""
        path = self.folder / "log" / "jobcomp.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return [dict(part.split("=", 1) for part in line.split() if "=" in part) for line in lines]

    def _start_guard(self) -> None:
        """A process that ends the daemons when this one is killed: its standard input closes then."""
        self._guard = subprocess.Popen(
            ["sh", "-c", f"cat; sleep 1; cat {self.folder}/pids/*.pid {self.folder}/munge/pid | xargs -r kill -9"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _start_munged(self) -> None:
        place = self.folder / "munge"
        self._daemon(
            "munged",
            "--force",
            f"--socket={place / 'sock'}",
            f"--key-file={place / 'key'}",
            f"--pid-file={place / 'pid'}",
            f"--log-file={place / 'log'}",
            f"--seed-file={place / 'seed'}",
            "--num-threads=2",
        )

    def _daemon(self, name: str, *arguments: str) -> None:
        program = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        assert program is not None
        environment = {**os.environ, **self.environment}
        with open(self.folder / "log" / f"{name}.start", "ab") as log:
            subprocess.run([program, *arguments], env=environment, check=True, stdout=log, stderr=log, timeout=30)

    def _await_idle(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            answer = self.run("sinfo", "-h", "-p", "h100", "-t", "idle", "-o", "%D", check=False)
            if answer.stdout.strip() == str(len(NODES)):
                return
            time.sleep(0.1)
        raise RuntimeError(f"Slurm did not come up: {self.run('sinfo', check=False).stdout}; logs in {self.folder}/log")

    def _write_configuration(self) -> None:
        host = socket.gethostname().split(".")[0]
        user = getpass.getuser()
        devices = _make_devices(self.folder / "dev")
        (self.folder / "gres.conf").write_text(f"Name=gpu Type=h100 File={devices}\n")
        nodes = "".join(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={self.base_port + 10 + index} CPUs=8 "
            f"Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=64000 "
            f"Gres=gpu:h100:{GPUS_PER_NODE}\n"
            for index, node in enumerate(NODES)
        )
        controller = "SlurmctldParameters=preempt_send_user_signal\n" if self.preempt_sends_user_signal else ""
        lab = self.folder
        none = "AccountingStorageType=accounting_storage/none\n"
        accounting = self._accounting.configuration if self.keeps_accounts else none
        self.configuration.write_text(
            f"ClusterName=lab\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={self.base_port}\n"
            f"SlurmUser={user}\nSlurmdUser={user}\nAuthType=auth/munge\nCredType=cred/munge\n"
            f"AuthInfo=socket={lab}/munge/sock,cred_expire=5\n"
            f"StateSaveLocation={lab}/state\nSlurmdSpoolDir={lab}/spool-%n\n"
            f"SlurmctldPidFile={lab}/pids/slurmctld.pid\nSlurmdPidFile={lab}/pids/slurmd-%n.pid\n"
            f"SlurmctldLogFile={lab}/log/slurmctld.log\nSlurmdLogFile={lab}/log/slurmd-%n.log\n"
            "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"
            # Memory is enforced as on a cluster with cgroups, by looking at the processes.
            "JobAcctGatherType=jobacct_gather/linux\nJobAcctGatherFrequency=task=2\nJobAcctGatherParams=OverMemoryKill,UsePss\n"
            "MpiDefault=none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nGresTypes=gpu\n"
            f"SlurmdParameters=config_overrides\n{controller}ReturnToService=2\nSlurmdTimeout=10\nKillWait=5\n"
            f"MinJobAge={self.min_job_age_seconds}\nMessageTimeout=4\nOverTimeLimit=0\nEnforcePartLimits=ALL\nJobRequeue=1\nSchedulerType=sched/backfill\n"
            "SchedulerParameters=bf_interval=5,sched_min_interval=500000,batch_sched_delay=0,requeue_delay=1\n"
            "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\nDebugFlags=NO_CONF_HASH\n"
            f"JobCompType=jobcomp/filetxt\nJobCompLoc={lab}/log/jobcomp.txt\n"
            f"{accounting}{nodes}"
            "PartitionName=DEFAULT State=UP MaxTime=02:00:00 DefaultTime=00:10:00 DefMemPerCPU=100\n"
            "PartitionName=h100 Nodes=node[1-4] Default=YES PriorityTier=10\n"
            "PartitionName=debug Nodes=node[1-4] MaxTime=00:02:00 PriorityTier=10\n"
            "PartitionName=short Nodes=node[1-4] MaxTime=00:01:00 OverTimeLimit=UNLIMITED PriorityTier=10\n"
            "PartitionName=urgent Nodes=node[1-4] PriorityTier=100\n"
            "PartitionName=scavenge Nodes=node[1-4] PriorityTier=1 PreemptMode=REQUEUE GraceTime=20\n"
            "PartitionName=lowcancel Nodes=node[1-4] PriorityTier=1 PreemptMode=CANCEL\n"
        )


def find_free_base_port() -> int:
    """A port P with P, P+10..P+13, P+20 and P+21 free now, below the ephemeral range; a range for each test process."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for base in range(17000 + 3000 * (worker % 4), 30000, 100):
        if all(_is_free(base + offset) for offset in (0, 10, 11, 12, 13, 20, 21)):
            return base
    raise RuntimeError("no free port range for a test Slurm")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _make_devices(folder: Path) -> str:
    """Character devices for gres.conf; an unprivileged user borrows the consoles', which are never opened."""
    if os.geteuid() != 0:
        return f"/dev/tty[0-{GPUS_PER_NODE - 1}]"
    for index in range(GPUS_PER_NODE):
        path = folder / f"gpu{index}"
        if not path.exists():
            os.mknod(path, 0o666 | 0o020000, os.makedev(1, 3))
    return f"{folder}/gpu[0-{GPUS_PER_NODE - 1}]"


def _find_processes_of_node(node: str, configuration: Path) -> list[int]:
    """Tasks whose environment names the node, and the step daemons that are their parents."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        if f"SLURMD_NODENAME={node}".encode() in variables and f"SLURM_CONF={configuration}".encode() in variables:
            found.update((int(entry.name), parent))
    return [pid for pid in found if pid > 1 and _is_slurm_or_task(pid)]


def _is_slurm_or_task(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return False
    return b"slurmctld" not in command and b"pytest" not in command


def _kill_pid_file(path: Path, number: signal.Signals) -> None:
    try:
        pid = int(path.read_text())
    except (OSError, ValueError):
        return
    _signal(pid, number)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
