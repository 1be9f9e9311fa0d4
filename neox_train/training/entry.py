"""What every rank runs: from a run's config.yml to its last checkpoint and finished.json."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from neox_train.checkpoint.reader import restore_checkpoint, restore_weights
from neox_train.checkpoint.resume import checkpoint_root
from neox_train.checkpoint.state import TrainerState
from neox_train.config.architecture import Architecture
from neox_train.config.fp8 import uses_fp8
from neox_train.config.layout import RunFolder
from neox_train.config.load import load_config
from neox_train.config.support import require_trainable
from neox_train.monitoring.metrics import MetricsWriter, trim_metrics
from neox_train.training.cadence import last_step
from neox_train.training.compression.auto import settle_compression
from neox_train.training.dataset import TrainingData
from neox_train.training.distributed import RankContext, leave_at_exit, run_on_main, start_process_group
from neox_train.training.engine import build_engine, describe_precision
from neox_train.training.failures import explain_failures
from neox_train.training.finished import write_finished
from neox_train.training.fp8_state import FP8_STATE, restore_fp8_state
from neox_train.training.loop import FINISHED, TrainingLoop
from neox_train.training.meter import IntervalMeter
from neox_train.training.progress import say
from neox_train.training.resume import Start, choose_start
from neox_train.training.saving import CheckpointKeeper
from neox_train.training.transformer_engine import describe_fp8
from neox_train.training.watchdog import watch_launcher

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig


def train_rank(
    run_folder: str,
    *,
    after_start: Callable[[], None] | None = None,
    tell_start: Callable[[list[str]], None] | None = None,
) -> str:
    """Train or resume the run in ``run_folder`` as one rank: ``finished``, or ``stopped`` after a save.

    RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT say which rank; without them it trains alone. The
    caller holds the run's lock; ``after_start`` is called once the process group has formed, ``tell_start`` on rank 0
    with what a person should know of where it starts. A run that is already trained only gets its
    finished.json again. Raises UserErrors, the same on every rank where the ranks agreed on it.
    """
    watch_launcher()
    if threads := os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))
    run = RunFolder(Path(run_folder))
    config = read_config(run)
    context = start_process_group(
        config.distributed_backend,
        tensor_parallel=config.model_parallel_size,
        pipeline_parallel=max(1, config.pipe_parallel_size),
    )
    with explain_failures(context):
        if after_start is not None:
            after_start()
        outcome = _train(run, config, context, tell_start)
    leave_at_exit()
    return outcome


def read_config(run: RunFolder) -> NeoxConfig:
    """The run's configuration for this number of processes; ConfigError when it cannot be trained."""
    config = load_config([run.config_file], world_size=int(os.environ.get("WORLD_SIZE", "1")))
    require_trainable(config)
    last_step(config)
    return config


def _train(
    run: RunFolder, config: NeoxConfig, context: RankContext, tell_start: Callable[[list[str]], None] | None
) -> str:
    data = TrainingData.open(config)
    config = config.with_vocab_size(data.vocab_size)
    digests = {"config": config.training_digest(), **data.digests}
    start = choose_start(config, run, digests, data.order)
    if tell_start is not None and context.is_main:
        tell_start(start.describe())
    checkpoint = start.resumed
    if start.step < last_step(config):
        loop = _prepare(run, config, context, data, digests, start)
        if (outcome := loop.run()) != FINISHED:
            return outcome
        checkpoint = loop.saved
    assert checkpoint is not None
    finished = checkpoint
    run_on_main(lambda: write_finished(run, config, finished, digests))
    _say(context, f"finished: step {config.train_iters}, {finished}")
    return FINISHED


def _prepare(
    run: RunFolder,
    config: NeoxConfig,
    context: RankContext,
    data: TrainingData,
    digests: dict[str, str],
    start: Start,
) -> TrainingLoop:
    """Everything before the first step: engine, restored state, metrics cut to it, and the head of the log."""
    architecture = Architecture.from_config(config)
    if config.eval_iters:
        # A split that is too short is told now, not at the first validation.
        data.validation_batches(config, context)
        data.test_batches(config, context)
    settled = None
    if config.gradient_compression == "auto":
        settled = settle_compression(config, context, start.resumed, document_end=data.document_end)
    engine, model = build_engine(
        settled.config if settled else config, architecture, context, document_end=data.document_end
    )
    keeper = CheckpointKeeper(
        root=checkpoint_root(config, run), config=config, engine=engine, model=model, digests=digests
    )
    warnings = keeper.check_space(start.step + 1)
    state = TrainerState()
    if start.weights_only and start.folder is not None:
        restore_weights(start.folder, engine=engine, model=model, config=config)
    if start.resumed is not None:
        state = restore_checkpoint(start.resumed, engine=engine, model=model, config=config)
        saved = state.extra.pop(FP8_STATE, None)
        if saved and uses_fp8(config):
            shape = (config.train_micro_batch_size_per_gpu, config.seq_length)
            restore_fp8_state(model, saved, shape=shape, device=context.device)
    if settled:
        state.extra |= settled.record
    run_on_main(lambda: trim_metrics(run.metrics, state.step))
    _say(context, describe_precision(engine))
    if told := describe_fp8(config):
        _say(context, told)
    if settled:
        _say(context, settled.sentence)
    for sentence in (*config.notices, *start.notices, *warnings, *filter(None, [data.notice])):
        _say(context, sentence)
    origin = f", {'weights ' if start.weights_only else ''}from {start.folder}" if start.folder else ""
    _say(context, f"step {state.step} of {config.train_iters}{origin}")
    return TrainingLoop(
        config=config,
        context=context,
        engine=engine,
        data=data,
        keeper=keeper,
        metrics=MetricsWriter(run.metrics),
        meter=IntervalMeter.from_config(config, architecture),
        state=state,
        saved=start.resumed,
    )


def _say(context: RankContext, sentence: str) -> None:
    if context.is_main:
        say(sentence)
