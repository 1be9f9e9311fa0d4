"""What counting and timing collectives costs: steps with and without the traffic meter in turn, in two processes.

``python -m benchmarks.meter_cost --dataset results/datasets/stdlib --output FILE.json``. The same training goes on
while blocks of steps are metered and not, so that drift and load of the machine fall on both. ZeRO 1 has several
collectives a step, ZeRO 3 several a layer.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks.ranks import run_as_ranks

_RANKS, _BLOCK = 2, 5
_RESAMPLES, _CALLS = 2000, 5000
_MODEL: dict[str, Any] = {
    "num_layers": 4,
    "hidden_size": 128,
    "num_attention_heads": 4,
    "seq_length": 128,
    "max_position_embeddings": 128,
    "pos_emb": "rotary",
    "no_weight_tying": True,
    "train_micro_batch_size_per_gpu": 4,
    "optimizer": {"type": "Adam", "params": {"lr": 0.001}},
    "distributed_backend": "gloo",
}


def main() -> None:
    """Train in two processes; print and write what metering cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", type=Path, required=True, help="dataset folder of `neox-train tokenize`")
    parser.add_argument("--output", type=Path, required=True, help="JSON file of the rows")
    parser.add_argument("--steps", type=int, default=600, help="of each ZeRO stage, half of them metered")
    parser.add_argument("--stages", type=int, nargs="+", default=[0, 1, 3])
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        _measure_all(arguments)
        return
    run_as_ranks("benchmarks.meter_cost", _RANKS)
    print("\n".join(tell_rows(json.loads(arguments.output.read_text()))))


def tell_rows(rows: list[dict[str, Any]]) -> list[str]:
    """A Markdown table."""
    lines = ["| ZeRO | Calls a step | Step without, ms | Difference of medians (95 %) | Meter's own time |"]
    lines.append("|---|---|---|---|---|")
    for row in rows:
        low, high = row["interval"]
        lines.append(
            f"| {row['stage']} | {row['calls']:.0f} | {1000 * row['off_seconds']:.1f} | {row['difference']:+.2%} "
            f"({low:+.2%} to {high:+.2%}) | {row['own_share']:.2%} |"
        )
    return lines


def compare(on: list[float], off: list[float]) -> dict[str, Any]:
    """Relative difference of the medians, and where 95 % of resampled ones lie."""
    draw = random.Random(1)
    resampled = sorted(
        median(draw.choices(on, k=len(on))) / median(draw.choices(off, k=len(off))) - 1 for _ in range(_RESAMPLES)
    )
    interval = [resampled[int(0.025 * _RESAMPLES)], resampled[int(0.975 * _RESAMPLES)]]
    return {"off_seconds": median(off), "difference": median(on) / median(off) - 1, "interval": interval}


def _measure_all(arguments: argparse.Namespace) -> None:
    from neox_train.training.distributed import leave_at_exit, start_process_group

    context = start_process_group("gloo")
    rows = []
    for stage in arguments.stages:
        rows.append({"stage": stage, **_measure(stage, arguments, context)})
        if context.is_main:
            print(rows[-1], flush=True)
            arguments.output.write_text(json.dumps(rows, indent=1) + "\n")
    leave_at_exit()


def _measure(stage: int, arguments: argparse.Namespace, context: Any) -> dict[str, Any]:
    from neox_train.config.architecture import Architecture
    from neox_train.config.load import load_config
    from neox_train.training.dataset import TrainingData
    from neox_train.training.engine import build_engine
    from neox_train.training.step import run_step

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.yml"
        # JSON is YAML.
        keys = {"zero_optimization": {"stage": stage}, "data_path": str(arguments.dataset)}
        file.write_text(json.dumps({**_MODEL, **keys, "train_iters": arguments.steps + _BLOCK}))
        config = load_config([file], world_size=_RANKS)
    data = TrainingData.open(config)
    config = config.with_vocab_size(data.vocab_size)
    engine, _ = build_engine(config, Architecture.from_config(config), context)
    batches = data.train_batches(config, context, 0)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    calls = []
    for step in range(-_BLOCK, arguments.steps):
        is_metered = (step // _BLOCK) % 2 == 0
        _switch(is_metered, context.traffic)
        began = time.perf_counter()
        run_step(engine, batches, lr=0.001, context=context)
        took = time.perf_counter() - began
        counted = context.traffic.take()
        if step < 0:
            continue
        seconds[is_metered].append(took)
        if is_metered:
            calls.append(sum(one["calls"] for one in counted.values()))
    _switch(True, context.traffic)
    engine.destroy()
    compared = compare(seconds[True], seconds[False])
    own_seconds = mean(calls) * _time_call(context)
    return {**compared, "calls": mean(calls), "own_share": own_seconds / compared["off_seconds"]}


def _switch(is_metered: bool, meter: Any) -> None:
    """Let the meter see all collectives or none, those too that DeepSpeed found when it started."""
    from deepspeed import comm

    from neox_train.training.traffic import start_metering, stop_metering

    if is_metered:
        start_metering(meter)
    else:
        stop_metering()
    backend: Any = comm.comm.cdb
    backend.all_gather_function = backend.get_all_gather_function()
    backend.reduce_scatter_function = backend.get_reduce_scatter_function()


def _time_call(context: Any) -> float:
    """Seconds that the meter adds to a collective: around one that does nothing."""
    import torch

    from neox_train.training.traffic import metered

    def nothing(tensor: Any, op: Any = None, group: Any = None, async_op: bool = False) -> None:
        return None

    tensor = torch.zeros(1000, device=context.device)
    call = metered("all_reduce", nothing, context.traffic)
    began = time.perf_counter()
    for _ in range(_CALLS):
        call(tensor)
    seconds = (time.perf_counter() - began) / _CALLS
    context.traffic.take()
    return seconds


if __name__ == "__main__":
    main()
