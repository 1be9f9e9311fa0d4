"""One process that takes a place on several grids in turn."""

from __future__ import annotations

import dataclasses
from typing import Any

from neox_train.config.grid import GridShape
from neox_train.training.distributed import RankContext
from neox_train.training.grid import build_grid


def place_on_grid(context: RankContext, config: Any) -> RankContext:
    """The context for the layout of ``config`` (collective); forgets what DeepSpeed kept of the layout before."""
    import deepspeed.utils.groups

    deepspeed.utils.groups.mpu = None
    deepspeed.utils.groups._ZERO_PARAM_INTRA_PARALLEL_GROUP = None
    shape = GridShape(pp=max(1, config.pipe_parallel_size), dp=config.data_parallel_size, tp=config.model_parallel_size)
    return dataclasses.replace(context, grid=build_grid(shape, context.rank))
