"""One of two tensor-parallel ranks that train, export and read the export back: argument JOB, a JSON file.

JOB lists run folders with their config.yml. Of every run the logits are left beside the folder, in
``NAME.safetensors``: of the ranks that trained (``trained``) and of ranks that hold the cuts of what the export says
(``imported``), on ``tokens``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from neox_train.checkpoint.collective import run_on_first
from neox_train.checkpoint.convert import ConvertOptions, convert_run
from neox_train.checkpoint.state import TrainerState
from neox_train.checkpoint.trained_text import choose_windows, list_splits
from neox_train.checkpoint.writer import save_checkpoint
from neox_train.config.architecture import Architecture
from neox_train.config.layout import RunFolder
from neox_train.config.load import load_config
from neox_train.config.parameters import list_parameters
from neox_train.model.gpt_neox import GPTNeoX
from neox_train.model.parallel.cutting import cut
from neox_train.model.parallel.group import TensorGroup
from neox_train.model.parallel.layers import ParallelLayers
from neox_train.training.dataset import TrainingData
from neox_train.training.distributed import RankContext, leave_at_exit, start_process_group
from neox_train.training.engine import build_engine
from neox_train.training.step import run_step
from tests.checkpoint.exported import load_canonical, name_export
from tests.training.grids import place_on_grid

STEPS = 2


@torch.no_grad()
def fill(model: GPTNeoX, whole: dict[str, torch.Tensor], group: TensorGroup) -> None:
    """Set the parameters named in ``whole`` to this rank's cuts; rows of vocabulary padding to zero."""
    own = dict(model.named_parameters())
    for p in list_parameters(model.architecture):
        if p.name in whole:
            padded = torch.zeros(p.shape)
            padded[: len(whole[p.name])] = whole[p.name]
            shard = cut(padded, dim=p.shard_dim, parts=p.shard_parts, rank=group.rank, size=group.size)
            own[p.name].copy_(shard)


def draw_biases(architecture: Architecture) -> dict[str, torch.Tensor]:
    """Every bias, those of norms too, from a normal distribution: a bias of zero hides what is added twice."""
    generator = torch.Generator().manual_seed(21)
    names = [p for p in list_parameters(architecture) if p.name.endswith(".bias")]
    return {p.name: 0.5 * torch.randn(p.shape, generator=generator) for p in names}


def work(run: RunFolder, context: RankContext) -> dict[str, torch.Tensor]:
    """Train and save, convert on rank 0, and compute with what was trained and with what was exported."""
    config = load_config([run.config_file], world_size=context.world_size)
    context = place_on_grid(context, config)
    group = context.grid.tensor_group
    architecture = Architecture.from_config(config)
    engine, model = build_engine(config, architecture, context)
    fill(model, draw_biases(architecture), group)
    data = TrainingData.open(config)
    batches = data.train_batches(config, context, 0)
    for _ in range(STEPS):
        run_step(engine, batches, lr=1e-3, context=context)
    folder = save_checkpoint(
        run.checkpoints,
        engine=engine,
        model=model,
        config=config,
        trainer=TrainerState(step=STEPS, consumed_samples=STEPS * config.train_batch_size),
        digests={"config": config.training_digest(), **data.digests},
    )
    run_on_first(lambda: convert_run(run, ConvertOptions(step_folder=folder)))
    _, windows = choose_windows(list_splits(Path(str(config.data_path))), config.seq_length)
    tokens = windows[:2, :-1].contiguous()
    imported = GPTNeoX(architecture, layers=ParallelLayers(group, sequence_parallel=config.sequence_parallel))
    fill(imported, load_canonical(name_export(run), architecture), group)
    return {"tokens": tokens, "trained": compute(model, tokens), "imported": compute(imported, tokens)}


@torch.no_grad()
def compute(model: GPTNeoX, tokens: torch.Tensor) -> torch.Tensor:
    return model.eval()(tokens)[..., : model.architecture.vocab_size].contiguous()


def main() -> None:
    """Do every run of the job."""
    job = json.loads(Path(sys.argv[1]).read_text())
    context = start_process_group("gloo")
    for folder in map(Path, job):
        seen = work(RunFolder(folder), context)
        if context.is_main:
            save_file(seen, folder.with_suffix(".safetensors"))
    leave_at_exit()


main()
