"""One rank of the byte tests: builds real engines one after another and reads what they hold from their tensors.

Started with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT set; the argument is a JSON file of cases, each a
mapping of overrides. Every rank writes what it saw beside it.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from neox_train.config.architecture import Architecture
from neox_train.training.compression.seam import find_compression
from neox_train.training.distributed import start_process_group
from neox_train.training.engine import build_engine
from neox_train.training.pipeline import train_pipeline_batch
from tests.memory.live import measure_kept
from tests.memory.plans import make_config
from tests.memory.saved import measure_saved
from tests.training.grids import place_on_grid

Storages = dict[int, int]
"""Bytes by address."""
_MASTERS = (
    "single_partition_of_fp32_groups",
    "fp32_groups_flat_partition",
    "fp32_groups",
    "fp32_partitioned_groups_flat",
)


def measure_case(overrides: dict[str, Any], context: Any) -> dict[str, Any]:
    # Kept alive, so that no new storage has the address of one that was there before.
    standing = list_alive()
    before = read_storages(standing)
    config = make_config(world_size=context.world_size, **overrides)
    context = place_on_grid(context, config)
    engine, model = build_engine(config, Architecture.from_config(config), context)
    is_pipeline = config.pipe_parallel_size > 1
    if is_pipeline:
        train_pipeline_batch(engine, iter([make_tokens(config).numpy()]))
    else:
        take_step(engine, config)
    parts = read_parts(engine, model)
    known = {address for part in parts.values() for address in part}
    alive = read_storages(list_alive())
    others = {address: size for address, size in alive.items() if address not in known | before.keys()}
    seen = {name: sum(part.values()) for name, part in parts.items()}
    seen["unlisted"] = sum(others.values())
    if not is_pipeline:
        seen["after_backward"] = measure_gradients(engine, model, config, standing=known)
        if config.checkpoint_activations:
            share = config.seq_length // (config.model_parallel_size if config.sequence_parallel else 1)
            hidden = torch.randn(config.train_micro_batch_size_per_gpu, share, config.hidden_size)
            seen["kept"] = measure_kept(model, hidden.requires_grad_(), config.seq_length)
        elif config.model_parallel_size > 1:
            seen["saved"] = measure_saved(model, make_tokens(config))
    engine.destroy()
    return {"wrapper": type(engine.optimizer).__name__, **seen}


def take_step(engine: Any, config: Any) -> None:
    for _ in range(config.gradient_accumulation_steps):
        engine.backward(compute_loss(engine, config))
        engine.step()
    if compression := find_compression(engine):
        compression.finish_step()


def make_tokens(config: Any) -> torch.Tensor:
    shape = (config.train_micro_batch_size_per_gpu, config.seq_length + 1)
    return torch.randint(0, config.vocab_size, shape, generator=torch.Generator().manual_seed(3))


def compute_loss(engine: Any, config: Any) -> torch.Tensor:
    tokens = make_tokens(config)
    return engine(tokens[:, :-1], tokens[:, 1:])


def read_parts(engine: Any, model: torch.nn.Module) -> dict[str, Storages]:
    """Static tensors by kind, found through the engine's own attributes."""
    optimizer = engine.optimizer
    weights = read_storages(
        [*model.parameters(), *(p.ds_tensor for p in model.parameters() if hasattr(p, "ds_tensor"))]
    )
    masters: list[Any] = []
    for name in _MASTERS:
        for group in getattr(optimizer, name, []):
            masters += group if isinstance(group, list) else [group]
    base = engine.basic_optimizer
    flat_groups = getattr(base, "flat_groups", [])
    masters += [flat.master for flat in flat_groups]
    states = getattr(base, "base", base).state.values()
    return {
        "weights": weights,
        "master_weights": read_storages(masters),
        "optimizer_states": read_storages(v for state in states for v in state.values() if torch.is_tensor(v)),
        "gradients": read_storages(
            [
                *(flat.gradients for flat in flat_groups),
                *getattr(optimizer, "fp32_groups_gradients_flat", []),
                *(buffer for buffer in [getattr(optimizer, "grad_partitions_flat_buffer", None)] if buffer is not None),
                # Offloaded masters keep the gradients that their update reads.
                *(master.grad for master in masters if is_offloaded(optimizer) and master.grad is not None),
            ]
        ),
    }


def is_offloaded(optimizer: Any) -> bool:
    return bool(getattr(optimizer, "cpu_offload", False) or getattr(optimizer, "offload_optimizer", False))


def measure_gradients(engine: Any, model: torch.nn.Module, config: Any, *, standing: set[int]) -> int:
    """Bytes of gradients that a backward pass leaves for the step, beside the standing ones."""
    for micro_step in range(config.gradient_accumulation_steps):
        engine.backward(compute_loss(engine, config))
        if micro_step < config.gradient_accumulation_steps - 1:
            engine.step()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    for partition in getattr(engine.optimizer, "averaged_gradients", {}).values():
        gradients += partition or []
    found = read_storages(gradients)
    engine.step()
    return sum(size for address, size in found.items() if address not in standing)


def read_storages(tensors: Iterable[torch.Tensor]) -> Storages:
    found = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage.nbytes() and tensor.device.type == "cpu":
            found[storage.data_ptr()] = storage.nbytes()
    return found


def list_alive() -> list[torch.Tensor]:
    gc.collect()
    with warnings.catch_warnings():
        # Asking some lazy objects for their type warns.
        warnings.simplefilter("ignore")
        return [thing for thing in gc.get_objects() if isinstance(thing, torch.Tensor)]


def main() -> None:
    path = Path(sys.argv[1])
    context = start_process_group("gloo")
    seen = [measure_case(overrides, context) for overrides in json.loads(path.read_text())]
    path.with_name(f"seen-{context.rank}.json").write_text(json.dumps(seen))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
