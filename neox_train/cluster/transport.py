"""Which network NCCL took, read from its own log, against what the profile promises.

With NCCL_DEBUG=INFO every connection between nodes is one line, ``... via NET/IB/0`` or ``... via NET/Socket/0``. TCP
where InfiniBand was promised is ten to a hundred times slower, and NCCL falls back to it without an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from neox_train.cluster.check import Check, fail, passed, skip, warn
from neox_train.config.cluster import Cluster
from neox_train.config.cluster_records import Network

_FAST = re.compile(r"infiniband|\b(hdr|ndr|xdr|edr)\b|roce|slingshot|omni-?path|\befa\b|rdma", re.IGNORECASE)
_CONNECTION = re.compile(r"via NET/([\w .-]+?)(?:/|\(|\s|$)")
_CHOSEN = re.compile(r"(?:Using network|Assigned NET plugin|Initialized NET plugin) ([\w.-]+)")
_SOCKET = re.compile(r"NET/Socket : Using (?:\[\d+\])?(\S+)")
_REASONS = (
    (re.compile(r"NET/IB : No device found"), "NCCL found no InfiniBand adapter", "{adapters}"),
    (
        re.compile(r"(?:Failed to open|Could not (?:find|load|open)).*libibverbs", re.IGNORECASE),
        "libibverbs does not load",
        "install rdma-core in the container or load the site's module (setup:)",
    ),
    (
        re.compile(r"NCCL_IB_DISABLE set by environment to 1"),
        "NCCL_IB_DISABLE is 1",
        "remove NCCL_IB_DISABLE from environment: and from setup:",
    ),
    (
        re.compile(r"NCCL_NET set by environment to \"?Socket"),
        "NCCL_NET is Socket",
        "remove NCCL_NET from environment: and from setup:",
    ),
)
LOG_HEAD = "nccl-"


@dataclass(frozen=True, slots=True)
class Transport:
    """What NCCL's log says of the network between nodes."""

    connections: dict[str, int]
    """Connections by transport: IB, Socket, or a plugin's name."""
    chosen: str | None
    interface: str | None
    """Of the sockets."""
    reason: str | None = None
    remedy: str | None = None

    @property
    def name(self) -> str | None:
        """The transport between nodes; Socket where any connection takes it."""
        used = [name for name, count in self.connections.items() if count]
        return "Socket" if "Socket" in used else (used[0] if used else self.chosen)


def watches_transport(cluster: Cluster, nodes: int) -> bool:
    """Whether a job's NCCL is asked to tell its network: where nodes are promised more than TCP."""
    return nodes > 1 and cluster.device == "cuda" and promises_fast_network(cluster.network)


def transport_variables(folder: Path, start: int) -> dict[str, str]:
    """Variables that make every rank's NCCL write which network it takes into a file of ``folder``.

    They win over a profile's NCCL_DEBUG: WARN. Warnings then stand in the file too. A file that the site chose stays.
    """
    if "NCCL_DEBUG_FILE" in os.environ:
        return {}
    return {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV",
        "NCCL_DEBUG_FILE": str(folder / f"{LOG_HEAD}{start}-%h-%p.log"),
    }


def promises_fast_network(network: Network) -> bool:
    """Whether the profile names InfiniBand, its adapters, or another network that is not TCP."""
    return bool(network.adapters or (network.kind and _FAST.search(network.kind)))


def read_own_log(pattern: str) -> list[str]:
    """Lines that this process's NCCL has written to NCCL_DEBUG_FILE, whose ``%h`` and ``%p`` are host and process."""
    file = Path(pattern)
    own = file.name.replace("%p", str(os.getpid())).replace("%h", "*")
    return [line for log in file.parent.glob(own) for line in log.read_text(errors="replace").splitlines()]


def parse_transport(lines: Iterable[str]) -> Transport:
    """What the lines of NCCL's log tell, of one rank or of many."""
    connections: dict[str, int] = {}
    chosen = interface = reason = remedy = None
    for line in lines:
        if match := _CONNECTION.search(line):
            name = match.group(1).strip()
            connections[name] = connections.get(name, 0) + 1
        elif match := _CHOSEN.search(line):
            chosen = match.group(1)
        elif match := _SOCKET.search(line):
            interface = match.group(1)
        for pattern, why, what in _REASONS:
            if reason is None and pattern.search(line):
                reason, remedy = why, what
    return Transport(connections, chosen, interface, reason, remedy)


def check_transport(transport: Transport, cluster: Cluster, *, nodes: int) -> Check:
    """NCCL's network between nodes against the profile's; a fall-back to TCP fails, with its reason and the remedy."""
    name, network = "network of NCCL", cluster.network
    if nodes < 2:
        return skip(name, "one node")
    used = transport.name
    if used is None:
        return warn(name, "NCCL's log tells no transport", "look at the files nccl-*.log of the job's folder")
    count = sum(transport.connections.values())
    told = f"{used}" + (f", {count} connections" if count else "")
    if used != "Socket" or not promises_fast_network(network):
        return passed(name, told)
    promised = network.kind or f"adapters {network.adapters}"
    over = f" over {transport.interface}" if transport.interface else ""
    because = f": {transport.reason}" if transport.reason else ""
    return fail(
        name,
        f"TCP sockets{over} where the profile promises {promised}{because}",
        _remedy(transport, network),
    )


def _remedy(transport: Transport, network: Network) -> str:
    adapters = "compare network.adapters with `ibstat -l` on the node; in a container bind /dev/infiniband"
    if network.adapters:
        adapters = f"network.adapters is {network.adapters}: " + adapters
    if transport.remedy:
        return transport.remedy.format(adapters=adapters)
    return f"{adapters}; where the network needs a plugin (Slingshot, EFA), load it in setup:"
