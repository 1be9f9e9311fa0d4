"""Real gloo processes whose collectives are counted by hand beside the meter."""

from __future__ import annotations

import socket
import time

import pytest
import torch
import torch.distributed
import torch.multiprocessing

from neox_train.config.grid import GridShape
from neox_train.training.traffic import TrafficMeter, start_metering, stop_metering

RANKS = 4
OVERLAP_SECONDS = 0.2


def _run(rank: int, port: int) -> None:
    store = torch.distributed.TCPStore("127.0.0.1", port, RANKS, rank == 0)
    meter = TrafficMeter(torch.device("cpu"), GridShape(dp=2, tp=2))
    untouched = torch.distributed.all_reduce
    start_metering(meter)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
    pairs = [torch.distributed.new_group([first, first + 1]) for first in (0, 2)]
    strangers = [torch.distributed.new_group([first, first + 2]) for first in (0, 1)]

    whole = torch.full((6,), float(rank))
    torch.distributed.all_reduce(whole)
    assert whole.tolist() == [6.0] * 6
    waiting = torch.distributed.all_reduce(whole, group=pairs[rank // 2], async_op=True)
    time.sleep(OVERLAP_SECONDS)
    waiting.wait()
    assert waiting.is_completed()
    gathered = torch.empty(8, dtype=torch.bfloat16)
    torch.distributed.all_gather_into_tensor(gathered, torch.ones(2, dtype=torch.bfloat16))
    torch.distributed.broadcast(torch.zeros(1), src=rank % 2, group=strangers[rank % 2])
    if rank < 2:
        alone = torch.zeros(3)
        (torch.distributed.send if rank == 0 else torch.distributed.recv)(alone, 1 - rank, group=pairs[0])

    taken = meter.take()
    figures = {name: (one["calls"], one["payload_bytes"], one["wire_bytes"]) for name, one in taken.items()}
    expected = {
        "world.all_reduce": (1, 24, 36),
        "tp.all_reduce": (1, 24, 24),
        "world.all_gather_into_tensor": (1, 16, 12),
        "dp.broadcast": (1, 4, 4),
    }
    assert figures == (expected | {"tp.send": (1, 12, 12)} if rank == 0 else expected)
    assert taken["world.all_gather_into_tensor"]["dtypes"] == ["bfloat16"]
    assert all(one["exposed_seconds"] > 0 for one in taken.values())
    overlapped = taken["tp.all_reduce"]
    assert overlapped["in_flight_seconds"] >= OVERLAP_SECONDS
    assert overlapped["overlap_fraction"] == pytest.approx(
        1 - overlapped["exposed_seconds"] / overlapped["in_flight_seconds"]
    )
    assert overlapped["overlap_fraction"] > 0.5
    alone = taken["world.all_reduce"]
    assert alone["overlap_fraction"] < 0.5
    assert alone["bus_gb_per_second"] == pytest.approx(36 / alone["in_flight_seconds"] / 1e9)
    assert meter.take() == {}
    stop_metering()
    assert torch.distributed.all_reduce is untouched
    torch.distributed.destroy_process_group()


@pytest.mark.distributed
def test_calls_and_bytes_are_counted_by_group_and_kind() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.spawn(_run, (port,), nprocs=RANKS)
