"""Where a step's milliseconds go: parts added one by one, then a table of GPU kernels.

``python -m benchmarks.profile_step ROW --work FOLDER --output FILE``; the rows are those of benchmarks/train_step.py.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.own_row import describe_row
from benchmarks.rows import SIZES, find_row
from benchmarks.token_store import write_store
from neox_train.config.architecture import Architecture
from neox_train.config.load import load_config
from neox_train.training import compilation
from neox_train.training.dataset import TrainingData
from neox_train.training.distributed import start_process_group
from neox_train.training.engine import build_engine
from neox_train.training.step import forward_loss, run_step

_WARMUP, _STEPS, _KERNELS = 8, 20, 30


def main() -> None:
    """Measure and profile one row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("row")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--activation-budget", type=float, default=compilation.ACTIVATION_MEMORY_BUDGET)
    arguments = parser.parse_args()
    compilation.ACTIVATION_MEMORY_BUDGET = arguments.activation_budget
    row = find_row(arguments.row)
    size = SIZES[row.size]
    store = write_store(
        arguments.work / f"store-{size.vocab_size}",
        vocab_size=size.vocab_size,
        train_tokens=8_000_000,
        validation_tokens=20 * size.micro_batch * size.seq_length,
    )
    file = arguments.work / "profiled.yml"
    file.write_text(json.dumps(describe_row(row, store)))
    context = start_process_group("nccl")
    config = load_config([file], world_size=1).with_vocab_size(size.vocab_size)
    engine, model = build_engine(config, Architecture.from_config(config), context)
    batches = TrainingData.open(config).train_batches(config, context, 0)
    same = torch.as_tensor(next(batches)).to(context.device)

    def passes() -> None:
        model(same[:, :-1], same[:, 1:]).backward()

    def engine_passes() -> None:
        engine.backward(forward_loss(engine, same, context, None))
        engine.micro_steps += 1

    def whole() -> None:
        run_step(engine, repeat(same), lr=1e-4, context=context)

    def loaded() -> None:
        run_step(engine, batches, lr=1e-4, context=context)

    parts = {"passes": passes, "+ engine": engine_passes, "+ update": whole, "+ loader": loaded}
    milliseconds = {name: _time(part) for name, part in parts.items()}
    table = _profile(whole)
    peak_gib = torch.cuda.max_memory_allocated() / 2**30
    record: dict[str, Any] = {
        "row": row.name,
        "activation_budget": arguments.activation_budget,
        "milliseconds": milliseconds,
        "peak_memory_gib": peak_gib,
        "kernels": table,
    }
    arguments.output.write_text(json.dumps(record, indent=1))
    print(row.name, {name: round(value, 1) for name, value in milliseconds.items()}, f"{peak_gib:.1f} GiB", flush=True)
    for kernel in table:
        print(f"{kernel['milliseconds']:8.2f} ms {kernel['calls']:5d}  {kernel['name'][:150]}")


def _time(part: Callable[[], None]) -> float:
    """Median milliseconds of a call, the GPU's work included."""
    seconds = []
    for call in range(_WARMUP + _STEPS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        part()
        torch.cuda.synchronize()
        if call >= _WARMUP:
            seconds.append(time.perf_counter() - began)
    return 1000 * median(seconds)


def _profile(part: Callable[[], None]) -> list[dict[str, Any]]:
    steps = 3
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(steps):
            part()
        torch.cuda.synchronize()
    events = sorted(profiler.key_averages(), key=lambda event: -event.self_device_time_total)
    return [
        {"name": event.key, "calls": event.count // steps, "milliseconds": event.self_device_time_total / 1000 / steps}
        for event in events[:_KERNELS]
    ]


if __name__ == "__main__":
    main()
