"""Where the ranks of a job meet: an address and a port that all of them know."""

from __future__ import annotations

import errno
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from neox_train.cluster.slurm_state import run_command
from neox_train.errors import PeerLostError, TrainingError
from neox_train.files import read_json, write_json

FIRST_PORT = 10000
LAST_PORT = 32767
"""Linux hands out ports from 32768 for outgoing connections; below that a listener is not surprised."""

_TRIES = 50
_STRIDE = 977
_POLL_SECONDS = 0.1


def port_of_job(job_id: str) -> int:
    """Port derived from the job id: the same on every rank and after a requeue, another for the next id."""
    return FIRST_PORT + int(job_id.split("_")[0]) % (LAST_PORT - FIRST_PORT + 1)


def candidate_ports(job_id: str) -> Iterator[int]:
    """The job's port, then others of the range, in an order that two neighbouring jobs do not share."""
    span = LAST_PORT - FIRST_PORT + 1
    first = port_of_job(job_id) - FIRST_PORT
    for attempt in range(_TRIES):
        yield FIRST_PORT + (first + attempt * _STRIDE) % span


def choose_port(job_id: str) -> int:
    """First candidate that this host can listen on; raises TrainingError naming port and holder when none is free."""
    for port in candidate_ports(job_id):
        if is_free(port):
            return port
    port = port_of_job(job_id)
    raise TrainingError(
        f"port {port} of job {job_id} on {socket.gethostname()} is taken by {_holder_of(port)}, and so are the "
        f"{_TRIES - 1} others tried; end that process or repeat the command for another job id"
    )


def is_free(port: int) -> bool:
    """Whether a listener can take ``port`` on all of this host's addresses."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                # A connection of an ended job may linger in TIME_WAIT: torch listens beside it, so the probe does.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((address, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            if family == socket.AF_INET:
                raise
    return True


def _holder_of(port: int) -> str:
    try:
        for connection in psutil.net_connections(kind="tcp"):
            if connection.laddr and connection.laddr.port == port and connection.pid:
                return f"process {connection.pid} ({psutil.Process(connection.pid).name()})"
    except psutil.Error:
        return "a process of another user"
    return "a process of another user"


def agree_on_address(
    folder: Path, *, job_id: str, start: int, rank: int, address: str, wait_seconds: float
) -> tuple[str, int]:
    """Address and port that rank 0 chose and wrote to ``folder`` for the job's ``start``-th start.

    Every rank calls it. Raises PeerLostError when rank 0 has written nothing within ``wait_seconds``.
    """
    file = folder / f"rendezvous-{job_id}-{start}.json"
    if rank == 0:
        write_json(file, {"address": address, "port": choose_port(job_id)})
    deadline = time.monotonic() + wait_seconds
    while (agreed := read_json(file)) is None:
        if time.monotonic() >= deadline:
            raise PeerLostError(
                f"rank {rank} waited {wait_seconds:.0f} s for rank 0 to start (no {file.name} in {folder}); "
                "see the log of rank 0 there"
            )
        # A listing makes network file systems look again for a name they remember as absent.
        os.listdir(folder)
        time.sleep(_POLL_SECONDS)
    return str(agreed["address"]), int(agreed["port"])


def find_address(host: str, *, several_nodes: bool) -> str:
    """IPv4 address of a job's first node that its other nodes can reach.

    Its name first, then the address that Slurm itself uses for the node, then the one that srun came from: node names
    need not resolve, and Debian resolves a host's own name to a loopback address.
    """
    found = []
    for name in _names_of(host):
        try:
            found.append(resolve_ipv4(name))
        except TrainingError:
            continue
        if not several_nodes or not found[-1].startswith("127."):
            return found[-1]
    if found:
        return found[0]
    raise TrainingError(
        f"the first node `{host}` has no IPv4 address, by its name or by `scontrol show node`; the ranks cannot meet"
    )


def _names_of(host: str) -> Iterator[str]:
    yield host
    answer = run_command(["scontrol", "-o", "show", "node", host])
    if match := re.search(r"NodeAddr=(\S+)", answer.out):
        yield match.group(1)
    if address := os.environ.get("SLURM_LAUNCH_NODE_IPADDR"):
        yield address


def resolve_ipv4(host: str) -> str:
    """IPv4 address of ``host``; TrainingError where its name does not resolve."""
    try:
        return str(socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise TrainingError(f"`{host}` has no IPv4 address ({error})") from error
