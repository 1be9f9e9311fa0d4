"""The compression that ``gradient_compression`` names, on an engine."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch

from neox_train.checkpoint.engine_state import open_engine
from neox_train.config.compression import choose_communication_type
from neox_train.config.local_update import choose_local_update
from neox_train.config.one_bit import uses_one_bit
from neox_train.model.gpt_neox import GPTNeoX
from neox_train.training.compression.local_update import LocalUpdate
from neox_train.training.compression.one_bit import OneBit
from neox_train.training.compression.power_sgd import PowerSGD
from neox_train.training.compression.seam import attach_compression, average_whole
from neox_train.training.compression.sparse_embedding import SparseEmbedding
from neox_train.training.grid import ParallelGrid

if TYPE_CHECKING:
    from deepspeed import DeepSpeedEngine

    from neox_train.config.schema import NeoxConfig

_WIRE_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def compress_gradients(engine: DeepSpeedEngine, model: torch.nn.Module, config: NeoxConfig, grid: ParallelGrid) -> None:
    """Attach what the configuration asks for; to one replica too, so that the keys mean the same on any number."""
    group = grid.get_data_parallel_group() if grid.shape.dp > 1 else torch.distributed.group.WORLD
    if config.sparse_gradients and isinstance(model, GPTNeoX):
        embedding = model.word_embeddings.weight
        attach_compression(engine, SparseEmbedding(engine, embedding, choice=config.sparse_gradients, group=group))
    if uses_one_bit(config):
        attach_compression(engine, OneBit(engine, open_engine(engine, model), group))
    if config.gradient_compression == "powersgd":
        power = PowerSGD(
            rank=config.powersgd_rank,
            start_step=config.powersgd_start_step,
            device=torch.device(engine.device),
            group=group,
        )
        attach_compression(engine, power)
    if config.gradient_compression == "local_update":
        chosen = choose_local_update(config)
        local = LocalUpdate(
            open_engine(engine, model),
            partial(average_whole, engine),
            every=chosen.every,
            start_step=chosen.start_step,
            lr=config.local_update_lr,
            momentum=chosen.momentum,
            wire_dtype=_WIRE_DTYPES[choose_communication_type(config) or "fp32"],
            group=group,
        )
        attach_compression(engine, local)
