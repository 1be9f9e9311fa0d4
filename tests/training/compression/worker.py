"""One rank that trains with every compression in turn: ``python -m tests.training.compression.worker JOB``.

JOB is a JSON file: ``dataset``, ``results`` (a folder), ``steps``, ``save_at`` and ``methods``, a mapping from a name
to the keys that differ. A method is trained, then trained again from its checkpoint; rank 0 writes ``NAME.json``.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import torch

from neox_train.checkpoint.reader import restore_checkpoint
from neox_train.checkpoint.state import TrainerState
from neox_train.checkpoint.writer import save_checkpoint
from neox_train.config.architecture import Architecture
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.training.compression.seam import find_compression
from neox_train.training.dataset import TrainingData
from neox_train.training.distributed import RankContext, leave_at_exit, start_process_group
from neox_train.training.engine import build_engine
from neox_train.training.step import measure_validation_loss, run_step
from tests.training.grids import place_on_grid
from tests.training.synthetic import resolve

OBSERVED = ("overlap_comm", "reduce_scatter", "round_robin_gradients", "contiguous_gradients")
"""Attributes in which DeepSpeed's ZeRO optimizers hold what they were told."""
largest: list[float] = []


def train(job: dict[str, Any], name: str, context: RankContext, *, resume: bool = False) -> dict[str, Any]:
    """What the training did; ``resume`` starts it at the checkpoint of the one before."""
    run = RunFolder(Path(job["results"]) / name)
    changes = dict(job["methods"][name])
    poison_at, lr = changes.pop("poison_at", None), changes.pop("lr", 3e-3)
    config = resolve(DatasetFolder(Path(job["dataset"])), run, world_size=context.world_size, **changes)
    context = place_on_grid(context, config)
    data = TrainingData.open(config)
    engine, model = build_engine(config, Architecture.from_config(config), context)
    state = TrainerState()
    if resume:
        folder = run.checkpoints / f"step_{job['save_at']:08d}"
        state = restore_checkpoint(folder, engine=engine, model=model, config=config)
    if poison_at is not None and context.rank == 1:
        own = next(p for key, p in model.named_parameters() if key.endswith("mlp.linear1.weight"))
        own.register_hook(lambda gradient: gradient * math.nan if state.step == poison_at else gradient)
    secondary_bytes = watch_secondary(engine.optimizer, model)
    batches = data.train_batches(config, context, state.step * config.train_batch_size)
    seen: dict[str, Any] = {"losses": [], "applied": [], "traffic": [], "largest_sent": []}
    seen["engine"] = {name: getattr(engine.optimizer, name, None) for name in OBSERVED}
    while state.step < job["steps"]:
        context.traffic.take()
        largest.clear()
        result = run_step(engine, batches, lr=lr, context=context)
        state.step += 1
        seen["losses"].append(result.loss)
        seen["largest_sent"].append(max(largest, default=0.0))
        seen["applied"].append(result.update.applied)
        seen["traffic"].append(context.traffic.take())
        if state.step == job["save_at"] and not resume:
            save_checkpoint(run.checkpoints, engine=engine, model=model, config=config, trainer=state, digests={})
    if compression := find_compression(engine):
        compression.finish_training()
    seen["secondary_bytes"] = max(secondary_bytes, default=0)
    weights = torch.cat([parameter.detach().reshape(-1).double() for parameter in model.parameters()])
    sums = [torch.zeros_like(weights) for _ in range(context.world_size)]
    torch.distributed.all_gather(sums, weights)
    seen["replicas_equal"] = all(torch.equal(other, sums[0]) for other in sums)
    seen["weights"] = weights.sum().item()
    seen["parameters"] = weights.numel()
    seen["largest_weight"] = max(weights.abs().tolist(), default=0.0)
    if compression:
        with compression.capture() as tensors:
            seen["own_bytes"] = sum(value.numel() * value.element_size() for value in tensors.values())
    seen["validation"] = measure_validation_loss(engine, data.validation_batches(config, context), context)
    engine.destroy()
    return seen


def watch_values(all_reduce: Any) -> None:
    """Keep the largest gradient that goes into every sum of a buffer (a few numbers are other things)."""

    def watched(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if tensor.numel() > 1000 and tensor.is_floating_point():
            largest.append(float(tensor.abs().max()))
        return all_reduce(tensor, *args, **kwargs)

    torch.distributed.all_reduce = watched


def watch_secondary(optimizer: Any, model: torch.nn.Module) -> list[int]:
    """Filled with the bytes of hpZ's second partitions at the end of every backward pass, before they are dropped."""
    seen: list[int] = []
    if not hasattr(optimizer, "invalidate_secondary_tensor"):
        return seen
    drop = optimizer.invalidate_secondary_tensor

    def look_and_drop() -> None:
        kept = [getattr(parameter, "ds_secondary_tensor", None) for parameter in model.parameters()]
        seen.append(sum(own.numel() * own.element_size() for own in kept if own is not None))
        drop()

    optimizer.invalidate_secondary_tensor = look_and_drop
    return seen


def run_methods(job_file: Path, context: RankContext) -> None:
    """Train every method of the job, whole and resumed; the first rank writes what came of it."""
    job = json.loads(job_file.read_text())
    for name in job["methods"]:
        record = {"whole": train(job, name, context), "resumed": train(job, name, context, resume=True)}
        if context.is_main:
            (Path(job["results"]) / f"{name}.json").write_text(json.dumps(record))
    leave_at_exit()


def main() -> None:
    """Train the job over gloo."""
    context = start_process_group("gloo")
    watch_values(torch.distributed.all_reduce)
    run_methods(Path(sys.argv[1]), context)


if __name__ == "__main__":
    main()
