"""The process group: who this rank is, which device it drives, and the few collectives the loop needs."""

from __future__ import annotations

import atexit
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch

from neox_train.checkpoint.collective import raising_the_first, run_on_first
from neox_train.config.grid import GridShape
from neox_train.errors import PeerLostError, TrainingError
from neox_train.training.grid import ParallelGrid, build_grid
from neox_train.training.traffic import TrafficMeter, start_metering

T = TypeVar("T")

COLLECTIVE_TIMEOUT = timedelta(minutes=10)
"""A dead peer is seen at once by gloo and ended by the launcher; this bounds a live peer that makes no progress."""
_LETTING_GO_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class RankContext:
    """One process of the training."""

    rank: int
    world_size: int
    local_rank: int
    device: torch.device
    grid: ParallelGrid
    traffic: TrafficMeter
    """What this process's collectives carried."""

    @property
    def data_parallel_rank(self) -> int:
        """Which of the replicas this rank is a part of: it decides the batch."""
        return self.grid.place.dp

    @property
    def is_main(self) -> bool:
        """Whether this rank writes the run's files and log lines."""
        return self.rank == 0


def start_process_group(backend: str, *, tensor_parallel: int = 1, pipeline_parallel: int = 1) -> RankContext:
    """Join the process group that RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT describe.

    The ranks form a grid of these degrees; what is left over of the world is data parallel. ``nccl`` becomes ``gloo``
    on a machine without GPUs. A process without RANK trains alone. Raises TrainingError when only some of the
    variables are set, PeerLostError when the group cannot form.
    """
    _set_alone_if_not_launched()
    rank, world_size, local_rank = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    device = _choose_device(local_rank)
    if device.type == "cuda":
        # DeepSpeed takes the local rank for the number of the device, which it is not where a rank sees one GPU only.
        os.environ["LOCAL_RANK"] = str(device.index)
    _prepare_deepspeed(device)
    shape = GridShape(pp=pipeline_parallel, dp=world_size // (tensor_parallel * pipeline_parallel), tp=tensor_parallel)
    traffic = TrafficMeter(device, shape)
    # Before DeepSpeed's backend starts: it keeps some of the functions it finds then.
    start_metering(traffic)
    import deepspeed

    backend = "gloo" if device.type == "cpu" else backend
    place = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    try:
        deepspeed.init_distributed(dist_backend=backend, timeout=COLLECTIVE_TIMEOUT, verbose=False)
    except (RuntimeError, ValueError) as error:
        raise PeerLostError(
            f"rank {rank} of {world_size} could not join the process group at {place} ({backend}: {_first_line(error)})"
            "; see the other ranks' logs, then repeat"
        ) from error
    return RankContext(
        rank=rank,
        world_size=world_size,
        local_rank=local_rank,
        device=device,
        grid=build_grid(shape, rank),
        traffic=traffic,
    )


def leave_at_exit() -> None:
    """Leave the process group when the process ends (DeepSpeed cannot join a second one in the same process).

    Only after success: leaving a group that lost a rank may wait for it.
    """
    atexit.unregister(_leave)
    atexit.register(_leave)


def _leave() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
        # gloo's threads still let go of the last collective's tensors. One that asks for the interpreter's lock while
        # the interpreter ends aborts the process, and a training that finished would count as failed.
        time.sleep(_LETTING_GO_SECONDS)


def reduce_sum(values: Sequence[float], context: RankContext) -> list[float]:
    """Element-wise sum over all ranks, in double precision and in an order that does not vary."""
    if context.world_size == 1:
        return list(values)
    summed = torch.tensor(values, dtype=torch.float64, device=context.device)
    torch.distributed.all_reduce(summed)
    return summed.tolist()


def reduce_max(value: float, context: RankContext) -> float:
    """Largest value over all ranks."""
    if context.world_size == 1:
        return value
    largest = torch.tensor([value], dtype=torch.float64, device=context.device)
    torch.distributed.all_reduce(largest, op=torch.distributed.ReduceOp.MAX)
    return largest.item()


def run_on_main(action: Callable[[], T]) -> T:
    """Run ``action`` on rank 0 and give every rank its result, or raise its error everywhere (collective)."""
    with raising_the_first():
        return run_on_first(action)


def _set_alone_if_not_launched() -> None:
    wanted = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in wanted if name not in os.environ]
    if not missing:
        return
    if len(missing) < len(wanted):
        raise TrainingError(
            f"{', '.join(missing)} not set in the environment, though other rank variables are; "
            "the launcher must set RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT together"
        )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))


def _choose_device(local_rank: int) -> torch.device:
    """The GPU of this local rank, or the CPU; DS_ACCELERATOR=cpu keeps a GPU machine on its CPU."""
    if os.environ.get("DS_ACCELERATOR") == "cpu" or not torch.cuda.is_available():
        os.environ["DS_ACCELERATOR"] = "cpu"
        return torch.device("cpu")
    visible = torch.cuda.device_count()
    # Slurm may show each task one GPU only, then every local rank drives device 0.
    index = 0 if visible == 1 else local_rank
    if index >= visible:
        raise TrainingError(
            f"local rank {local_rank} has no GPU of its own ({visible} visible); "
            "set `processes_per_node` of the cluster file to the number of GPUs of a node"
        )
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def _prepare_deepspeed(device: torch.device) -> None:
    """Quieten DeepSpeed, and keep it from compiling its CPU shared-memory operator at start-up."""
    import logging
    import warnings

    import deepspeed.ops
    from deepspeed.utils import logger

    logger.setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.distributed")
    if device.type == "cpu":
        # Its just-in-time build takes a minute and crashes without a compiler; gloo does the same work.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
