"""What a choice of compression needs to know, measured on this run's own ranks, model and links in a few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from neox_train.config.local_update import choose_local_update
from neox_train.memory.compression_advice import Link, StepFacts
from neox_train.training.compression.power_sgd import PowerSGD
from neox_train.training.distributed import RankContext, reduce_max
from neox_train.training.targets import split_windows

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

_SMALL_REPEATS, _LARGE_REPEATS, _MICRO_BATCHES = 9, 3, 3
_FIRST_BYTES, _GROWTH = 2**16, 4
_FP32 = 4


def measure_link(context: RankContext, largest_bytes: int, *, limit_seconds: float = 1.5) -> Link:
    """Bus bandwidth and latency of all-reduces between all ranks, messages of up to ``largest_bytes`` (collective).

    Messages grow as long as the next size fits into ``limit_seconds``; the largest one counts. Every rank gets the
    slowest one's figures.
    """
    latency = _time_all_reduce(1, _SMALL_REPEATS, context)
    began, size_bytes, seconds = time.perf_counter(), min(_FIRST_BYTES, largest_bytes), 0.0
    while True:
        measured = _time_all_reduce(max(1, size_bytes // _FP32), _LARGE_REPEATS, context)
        # A message's start is known apart; it cannot be more than half of a large one's time.
        seconds = max(measured - latency, measured / 2)
        rate = 2 * (context.world_size - 1) / context.world_size * size_bytes / seconds / 1e9
        spent = reduce_max(time.perf_counter() - began, context)
        following = min(_GROWTH * size_bytes, largest_bytes)
        expected = (_LARGE_REPEATS + 1) * measured * following / size_bytes
        if following == size_bytes or spent + expected > limit_seconds:
            return Link(gb_per_second=rate, latency_seconds=latency)
        size_bytes = following


def measure_step(config: NeoxConfig, model: torch.nn.Module, context: RankContext, element_bytes: int) -> StepFacts:
    """Seconds of a step's computing, and of PowerSGD's own, on a bare model that nothing else uses (collective).

    A few micro-batches of random tokens, and AdamW in the place of any optimizer.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    count = sum(parameter.numel() for parameter in parameters)
    compute_seconds = _time_computing(config, model, context)
    share, powersgd_seconds = 1.0, 0.0
    if context.world_size > 1:
        gradients = [p.grad for p in parameters if p.grad is not None]
        share, powersgd_seconds = _time_powersgd(config, gradients, context)
    local = choose_local_update(config)
    return StepFacts(
        replicas=context.world_size,
        parameters=count,
        element_bytes=element_bytes,
        compute_seconds=reduce_max(compute_seconds, context),
        powersgd_share=share,
        local_update_steps=local.every,
        local_whole_share=min(1.0, local.start_step / max(1, config.train_iters or 0)),
        local_element_bytes=2.0 if config.communication_data_type in ("fp16", "bf16", "bfp16") else 4.0,
        method_seconds={"powersgd": reduce_max(powersgd_seconds, context)},
    )


def _time_computing(config: NeoxConfig, model: torch.nn.Module, context: RankContext) -> float:
    shape = (config.train_micro_batch_size_per_gpu, config.seq_length + 1)
    windows = torch.randint(0, config.vocab_size or 1, shape, device=context.device)

    def compute() -> None:
        model(*split_windows(windows, None)).backward()

    micro_batch = _time(compute, _MICRO_BATCHES, context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, fused=context.device.type == "cuda")
    update = _time(lambda: optimizer.step(), 1, context)
    return config.gradient_accumulation_steps * micro_batch + update


def _time_powersgd(config: NeoxConfig, gradients: list[torch.Tensor], context: RankContext) -> tuple[float, float]:
    """Bytes on the wire by those of whole fp32 gradients, and seconds beside communication."""
    power = PowerSGD(rank=config.powersgd_rank, start_step=2, device=context.device, group=dist.group.WORLD)
    power.begin()
    power.reduce(gradients)
    context.traffic.take()
    seconds = _time(lambda: power.reduce(gradients), 1, context, warm_up=False)
    sent = context.traffic.take().values()
    whole = 2 * (context.world_size - 1) / context.world_size * _FP32 * sum(one.numel() for one in gradients)
    waited = sum(kind["exposed_seconds"] for kind in sent)
    return sum(kind["wire_bytes"] for kind in sent) / whole, max(0.0, seconds - waited)


def _time_all_reduce(elements: int, repeats: int, context: RankContext) -> float:
    buffer = torch.zeros(elements, dtype=torch.float32, device=context.device)
    return reduce_max(_time(lambda: dist.all_reduce(buffer), repeats, context), context)


def _time(action: Callable[[], object], repeats: int, context: RankContext, *, warm_up: bool = True) -> float:
    """Median seconds of an action; the first run, which sets things up, is not counted."""
    seconds = []
    for _ in range(repeats + warm_up):
        _wait(context)
        began = time.perf_counter()
        action()
        _wait(context)
        seconds.append(time.perf_counter() - began)
    return median(seconds[warm_up:])


def _wait(context: RankContext) -> None:
    if context.device.type == "cuda":
        torch.cuda.synchronize(context.device)
