"""The memory of this machine against what all ranks that start on it need together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from neox_train.config.cluster import Cluster
from neox_train.config.schema import NeoxConfig
from neox_train.data.order_size import count_order_bytes

_GIB = 1 << 30
_MIB = 1 << 20
CPU_SHARED_BYTES = 130 * _MIB
"""Pages of libraries that all CPU ranks of a machine have in common. Source: resident less proportional memory
(smaps_rollup) of two and of four gloo ranks of a 3-million-parameter training, 136 and 129 MiB."""
_UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class Machine:
    """Bytes of memory that processes started here can have in all, and of those what is free now."""

    total: int
    available: int


@dataclass(frozen=True, slots=True)
class MachineUse:
    """What the ranks of a training on this machine need of its memory, in bytes."""

    processes: int
    each: int
    shared: int
    """Of ``each`` what every rank has in common with the others."""
    machine: Machine

    @property
    def needed(self) -> int:
        """All ranks together."""
        return self.processes * (self.each - self.shared) + self.shared

    @property
    def fits(self) -> bool:
        """Whether the machine has so much memory, whoever uses it now."""
        return self.needed <= self.machine.total

    @property
    def most_processes(self) -> int:
        """Ranks of that size which the machine holds; at least 0."""
        return max(0, (self.machine.total - self.shared) // max(1, self.each - self.shared))

    def word(self) -> str:
        """One sentence where memory is short, empty where it suffices."""
        if self.needed <= self.machine.available:
            return ""
        together = (
            f"{self.processes} processes need {self.needed / _GIB:.2f} GiB together ({self.each / _GIB:.2f} GiB each)"
        )
        if self.fits:
            return (
                f"{together}, and {self.machine.available / _GIB:.2f} of this machine's "
                f"{self.machine.total / _GIB:.2f} GiB are free now; end other work, or start fewer processes"
            )
        fewer = ""
        if self.most_processes:
            fewer = f"start at most {self.most_processes} (--processes, or processes_per_node of the cluster file), or "
        return f"{together}, and this machine has {self.machine.total / _GIB:.2f} GiB; {fewer}make a rank smaller"


def weigh_machine(config: NeoxConfig, cluster: Cluster, each: int, machine: Machine | None) -> MachineUse | None:
    """The use of this machine by the training's ranks of ``each`` bytes of its memory; None where they start elsewhere.

    Tables of samples' orders, which only .bin/.idx files have, come on top.
    """
    if machine is None or cluster.executor != "local":
        return None
    shared = CPU_SHARED_BYTES if cluster.device == "cpu" else 0
    return MachineUse(cluster.processes_per_node, each + count_order_bytes(config), min(shared, each), machine)


def read_machine(root: Path = Path("/")) -> Machine | None:
    """This machine's memory within the limits of the job or container that runs this; None where it is not told."""
    try:
        memory = psutil.virtual_memory()
    except (OSError, RuntimeError):
        return None
    total, available = memory.total, memory.available
    for limit, used in _list_limits(root):
        total, available = min(total, limit), min(available, max(0, limit - used))
    return Machine(total, available)


def _list_limits(root: Path) -> Iterator[tuple[int, int]]:
    """Limit and use of every control group around this process (version 1 and 2) that has a limit."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            base = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        own = base / path.strip("/")
        for folder in (own, *own.parents):
            limit = _read(folder / names[0]).strip()
            if limit.isdigit() and int(limit) < _UNLIMITED:
                used = int(_read(folder / names[1]).strip() or 0) - _find_cache(folder / "memory.stat", names[2])
                yield int(limit), used
            if folder == base:
                break


def _find_cache(file: Path, name: str) -> int:
    """Pages of files that the kernel gives up as soon as memory is short."""
    counts = dict(line.split(maxsplit=1) for line in _read(file).splitlines() if " " in line)
    return int(counts.get(name, 0))


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
