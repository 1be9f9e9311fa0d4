"""One rank that trains several layouts in turn, each from the start: ``python -m tests.training.layout_worker JOB``.

JOB is a JSON file: ``dataset``, ``results`` (a folder), ``steps``, ``backend`` (gloo unless given) and ``layouts``,
a mapping from a name to the keys that differ; ``save_at`` and ``restore`` among them are a step to save at and a
checkpoint to begin from, ``poison_at`` is a step at which the last rank's gradients are not finite. Rank 0 writes
``NAME.json`` with the losses, the gradient norms and whether the update was applied, of every step.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import torch

from neox_train.checkpoint.reader import restore_checkpoint
from neox_train.checkpoint.state import TrainerState
from neox_train.checkpoint.writer import save_checkpoint
from neox_train.config.architecture import Architecture
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.training import engine as engine_module
from neox_train.training.dataset import TrainingData
from neox_train.training.distributed import RankContext, leave_at_exit, start_process_group
from neox_train.training.engine import build_engine
from neox_train.training.schedule import LearningRateSchedule
from neox_train.training.step import measure_validation_loss, run_step
from tests.training.grids import place_on_grid
from tests.training.synthetic import resolve


def run_layout(job: dict[str, Any], name: str, context: RankContext) -> None:
    """Train one layout."""
    run = RunFolder(Path(job["results"]) / name)
    dataset = DatasetFolder(Path(job["dataset"]))
    changes = dict(job["layouts"][name])
    save_at, restore, poison_at = (changes.pop(name, None) for name in ("save_at", "restore", "poison_at"))
    config = resolve(dataset, run, world_size=context.world_size, **changes)
    context = place_on_grid(context, config)
    data = TrainingData.open(config)
    masked_after = data.document_end if config.eod_mask_loss else None
    engine, model = build_engine(config, Architecture.from_config(config), context, document_end=data.document_end)
    trainer = TrainerState()
    if restore is not None:
        trainer = restore_checkpoint(Path(restore), engine=engine, model=model, config=config)
    schedule = LearningRateSchedule.from_config(config)
    batches = data.train_batches(config, context, trainer.step * config.train_batch_size)
    if poison_at is not None and context.rank == context.world_size - 1:
        own = next(p for name, p in model.named_parameters() if name.endswith("mlp.linear1.weight"))
        own.register_hook(lambda gradient: gradient * math.nan if trainer.step == poison_at else gradient)
    results = []
    while trainer.step < job["steps"]:
        results.append(
            run_step(engine, batches, lr=schedule.lr_at(trainer.step), context=context, masked_after=masked_after)
        )
        trainer.step += 1
        if trainer.step == save_at:
            save_checkpoint(run.checkpoints, engine=engine, model=model, config=config, trainer=trainer, digests={})
    validation = measure_validation_loss(engine, data.validation_batches(config, context), context, masked_after)
    if context.is_main:
        record = {
            "losses": [result.loss for result in results],
            "norms": [result.update.grad_norm for result in results],
            "applied": [result.update.applied for result in results],
            "validation": validation,
        }
        (Path(job["results"]) / f"{name}.json").write_text(json.dumps(record))
    engine.destroy()


def main() -> None:
    """Train every layout of the job."""
    job = json.loads(Path(sys.argv[1]).read_text())
    backend = job.get("backend", "gloo")
    if backend == "gloo" and torch.cuda.is_available() and os.environ["DS_ACCELERATOR"] != "cpu":
        # DeepSpeed would bind the group to the GPU, which gloo cannot split.
        torch.distributed.init_process_group("gloo")
    from deepspeed.accelerator import get_accelerator

    context = start_process_group(backend)
    # Refused to users; these models are small enough.
    engine_module._refuse_fp16_on_cpu = lambda *_: None  # type: ignore[assignment]
    get_accelerator().is_fp16_supported = lambda: True
    for name in job["layouts"]:
        run_layout(job, name, context)
    leave_at_exit()


main()
