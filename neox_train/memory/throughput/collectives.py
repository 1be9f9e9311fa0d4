"""Seconds of collectives by size and place: links inside a node, the network between nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from neox_train.memory.throughput.rates import HardwareRates


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks that communicate, ``stride`` apart; all groups of a node do so at the same time."""

    size: int
    stride: int = 1

    def bandwidth(self, rates: HardwareRates) -> float | None:
        """Bytes a second of one rank's part of a ring; None where it needs a network the cluster file says nothing of.

        A group that leaves its node shares the node's adapters with the groups beside it.
        """
        if self.size * self.stride <= rates.processes_per_node:
            return rates.link_bytes
        if rates.network_bytes is None:
            return None
        groups = min(self.stride, rates.processes_per_node)
        return min(rates.link_bytes, rates.network_bytes / groups)


def predict_gather(size_bytes: float, group: Group, rates: HardwareRates) -> float:
    """Seconds of an all-gather or reduce-scatter of ``size_bytes`` in all: a ring, with a tree's number of waits.

    Infinite where the network's bandwidth is not known.
    """
    if group.size == 1 or size_bytes == 0:
        return 0.0
    bandwidth = group.bandwidth(rates)
    if bandwidth is None:
        return math.inf
    waits = math.ceil(math.log2(group.size)) * rates.latency_seconds
    return (group.size - 1) / group.size * size_bytes / bandwidth + waits


def predict_all_reduce(size_bytes: float, group: Group, rates: HardwareRates) -> float:
    """Seconds of an all-reduce: a reduce-scatter and an all-gather."""
    return 2 * predict_gather(size_bytes, group, rates)


def predict_send(size_bytes: float, distance: int, rates: HardwareRates) -> float:
    """Seconds that a tensor takes to the rank ``distance`` away, while all ranks of the node send."""
    if distance < rates.processes_per_node:
        return size_bytes / rates.link_bytes + rates.latency_seconds
    if rates.network_bytes is None:
        return math.inf
    return size_bytes * rates.processes_per_node / rates.network_bytes + rates.latency_seconds
