"""The model under a DeepSpeed engine, with the optimizer that the configuration names."""

from __future__ import annotations

import contextlib
import io
import os
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from neox_train.config.architecture import Architecture
from neox_train.config.deepspeed import deepspeed_json, flat_masters_json
from neox_train.config.implementations import Implementations
from neox_train.config.offload import offloads_optimizer
from neox_train.config.zeropp import list_quantised
from neox_train.errors import ConfigError
from neox_train.model.gpt_neox import GPTNeoX
from neox_train.model.heads import fuse_rotation
from neox_train.model.initialisation import initialise
from neox_train.model.layers import LayerFactory, LocalLayers
from neox_train.model.parallel.layers import ParallelLayers
from neox_train.model.recomputation import Recompute, build_recompute
from neox_train.training.compilation import compile_blocks, prefer_fast_attention
from neox_train.training.compression.choice import compress_gradients
from neox_train.training.distributed import RankContext
from neox_train.training.flat_engine import attach_flat_masters, build_flat_masters
from neox_train.training.flat_masters import FlatMasters
from neox_train.training.grid import ParallelGrid
from neox_train.training.muon import MuonWithAdamW
from neox_train.training.optimizer import build_optimizer
from neox_train.training.parameter_groups import group_parameters
from neox_train.training.partitioned_sums import widen_partitioned_sums
from neox_train.training.sharded_gather import gather_one_by_one
from neox_train.training.shared_norm import measure_norm_at_once
from neox_train.training.transformer_engine import choose_layers, keep_edges_in_16_bits
from neox_train.training.unsharded import complete_wrapper, widen_sums, without_steps

if TYPE_CHECKING:
    from deepspeed import DeepSpeedEngine

    from neox_train.config.schema import NeoxConfig


def build_engine(
    config: NeoxConfig, architecture: Architecture, context: RankContext, *, document_end: int | None = None
) -> tuple[DeepSpeedEngine, torch.nn.Module]:
    """Build the model with its starting weights, its optimizer, and the engine around both.

    The weights depend on ``config.seed`` alone, so they are the same on every rank; the random streams of dropout
    differ by rank.
    """
    import deepspeed

    _refuse_fp16_on_cpu(config, context)
    _require_quantiser(config, context)
    grid = context.grid
    # Tensor-parallel peers draw alike: what they hold alike is dropped out alike.
    seed_random_streams(config.seed + context.rank // grid.shape.tp)
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    choice = Implementations.choose(config, "cuda" if context.device.type == "cuda" else "cpu")
    model = build_model(config, architecture, grid, choice, document_end)
    initialise(model, architecture, config.seed, tensor_rank=grid.place.tp, tensor_size=grid.shape.tp)
    if config.zero_stage < 3 and not offloads_optimizer(config):
        # Elsewhere DeepSpeed casts the weights on the host and moves two bytes of each: these layouts are for models
        # whose fp32 weights may be too large.
        model.to(context.device)
    prefer_fast_attention(context.device)
    fuse_rotation(choice.fused_rotation)
    if choice.compiled_blocks:
        compile_blocks(model)
    groups = group_parameters(model, architecture, config, is_whole=grid.shape.pp == 1)
    if choice.flat_masters:
        optimizer, settings = build_flat_masters(config, groups), flat_masters_json(config)
    else:
        optimizer, settings = build_optimizer(config, groups, context.device), deepspeed_json(config)
    # DeepSpeed prints memory figures while it sets up, whatever its log level.
    with contextlib.redirect_stdout(io.StringIO()), without_steps(optimizer):
        engine, *_ = deepspeed.initialize(
            model=model,
            optimizer=optimizer,
            config=gather_one_by_one(settings, context.device),
            mpu=grid if grid.shape.tp > 1 and grid.shape.pp == 1 else None,
        )
    if isinstance(optimizer, FlatMasters):
        attach_flat_masters(engine, optimizer, config)
    else:
        widen_sums(model, config)
    if isinstance(optimizer, MuonWithAdamW):
        from neox_train.training.muon_shards import attach_muon_shards

        attach_muon_shards(engine, model, optimizer)
    complete_wrapper(engine)
    widen_partitioned_sums(engine, config)
    measure_norm_at_once(engine)
    _check_for_overflow_everywhere(engine)
    compress_gradients(engine, model, config, grid)
    return engine, model


def build_model(
    config: NeoxConfig,
    architecture: Architecture,
    grid: ParallelGrid,
    choice: Implementations,
    document_end: int | None,
) -> torch.nn.Module:
    """The model in fp32 on the CPU, with weights that are not initialised yet."""
    if config.document_attention and document_end is None:
        raise ValueError("document_attention needs the token that ends a document")
    if not config.document_attention:
        document_end = None
    layers = _choose_layers(config, grid)
    te = choose_layers(config, grid.tensor_group)
    recompute = _choose_recompute(config, grid, te.pop("recompute", checkpoint))
    if grid.shape.pp == 1:
        model = GPTNeoX(
            architecture,
            checkpoint_layers=choice.checkpoint_layers,
            loss_chunk_tokens=choice.loss_chunk_tokens,
            recompute=recompute,
            document_end=document_end,
            **{"layers": layers, **te},
        )
        keep_edges_in_16_bits(model, config)
        return model
    from neox_train.training.pipeline_model import PipelinedGPTNeoX, StagePlan

    plan = StagePlan(
        shape=grid.shape,
        partition_method=config.pipe_partition_method,
        checkpoint_layers=choice.checkpoint_layers,
        recompute=recompute,
        document_end=document_end,
    )
    return PipelinedGPTNeoX(architecture, layers, plan)


def _choose_recompute(config: NeoxConfig, grid: ParallelGrid, base: Recompute) -> Recompute:
    # Under sequence parallelism every rank keeps another part of the sequence already.
    is_shared = config.partition_activations and grid.shape.tp > 1 and not config.sequence_parallel
    return build_recompute(
        base=base,
        selective=config.checkpoint_granularity == "selective",
        shared_by=grid.tensor_group if is_shared else None,
        on_host=config.checkpoint_in_cpu,
    )


def _choose_layers(config: NeoxConfig, grid: ParallelGrid) -> LayerFactory:
    if grid.shape.tp == 1:
        return LocalLayers()
    return ParallelLayers(grid.tensor_group, sequence_parallel=config.sequence_parallel)


def seed_random_streams(seed: int) -> None:
    """Seed every random stream that training could draw from."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def describe_precision(engine: DeepSpeedEngine) -> str:
    """One line that states the types the engine really uses, for the head of the log."""
    if isinstance(engine.optimizer, FlatMasters):
        model_dtype, accumulation_dtype, communication_dtype = engine.optimizer.describe_types()
    else:
        model_dtype, accumulation_dtype = engine.get_data_types()
        if engine.zero_optimization_stage() == 0:
            # The sums are the parameters' own gradients, and may be wider than DeepSpeed knows of.
            accumulation_dtype = getattr(next(engine.module.parameters()), "grad_dtype", accumulation_dtype)
        communication_dtype = engine.communication_data_type
    parts = {
        "GEMMs": _name_gemms(model_dtype, engine.device),
        "master weights": "float32",
        "gradient accumulation": _name(accumulation_dtype),
        "communication": _name(communication_dtype),
    }
    return "precision: " + ", ".join(f"{what} {dtype}" for what, dtype in parts.items())


def _refuse_fp16_on_cpu(config: NeoxConfig, context: RankContext) -> None:
    if config.precision == "fp16" and context.device.type == "cpu":
        raise ConfigError("fp16 does not train on this CPU; set `precision: bfloat16` (and remove the `fp16` block)")


def _require_quantiser(config: NeoxConfig, context: RankContext) -> None:
    """Raise ConfigError where DeepSpeed's quantising kernels cannot run or be built."""
    quantised = list_quantised(config)
    if not quantised:
        return
    if context.device.type == "cpu":
        raise ConfigError(f"{quantised[0]} needs a GPU, and this process has none; remove it")
    from deepspeed.git_version_info import installed_ops
    from torch.utils.cpp_extension import CUDA_HOME

    if CUDA_HOME is None and not installed_ops.get("quantizer"):
        raise ConfigError(
            f"{quantised[0]} needs kernels that DeepSpeed builds with nvcc, and no CUDA toolkit is found; load a CUDA "
            "module (CUDA_HOME) in `setup:`, or remove the key"
        )


def _check_for_overflow_everywhere(engine: DeepSpeedEngine) -> None:
    """Make ZeRO skip steps whose gradients are not finite in every precision: stage 3 looks in fp16 alone, 1 and 2 in
    16 bits.
    """
    optimizer: Any = engine.optimizer
    if hasattr(optimizer, "check_grad_overflow"):
        optimizer.check_grad_overflow = True
    if engine.zero_optimization_stage() == 3 and not engine.fp16_enabled():
        decide = optimizer._overflow_check_and_loss_scale_update

        def look_and_decide() -> bool:
            optimizer.check_overflow()
            return bool(decide())

        optimizer._overflow_check_and_loss_scale_update = look_and_decide


def _name_gemms(dtype: torch.dtype, device: Any) -> str:
    if dtype == torch.float32 and torch.device(device).type == "cuda" and torch.backends.cuda.matmul.allow_tf32:
        return "tf32"
    return _name(dtype)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
