"""Loading a checkpoint into an engine on any number of data-parallel ranks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from neox_train.checkpoint.adapters.held import EngineState, Held, Position
from neox_train.checkpoint.collective import get_rank, raising_the_first, run_together
from neox_train.checkpoint.engine_state import open_engine, restore_counters, restore_loss_scaler
from neox_train.checkpoint.fragments import MASTER
from neox_train.checkpoint.manifest import World, read_manifest
from neox_train.checkpoint.opaque import restore_opaque
from neox_train.checkpoint.optimizer_state import build_scalar, is_fused, put_state, restore_groups
from neox_train.checkpoint.own_state import SavedOwnState, find_own_state
from neox_train.checkpoint.random_state import is_random_state, restore_random_state
from neox_train.checkpoint.rank_file import name_rank_file
from neox_train.checkpoint.shard_table import ShardTable
from neox_train.checkpoint.shards import fill_from_shards
from neox_train.checkpoint.state import TrainerState
from neox_train.checkpoint.table import build_table, check_same_parameters
from neox_train.checkpoint.tensor_reader import TensorReader, open_tensors
from neox_train.checkpoint.writer import STATE_NAME
from neox_train.config.architecture import Architecture
from neox_train.errors import CheckpointError
from neox_train.files import read_json

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig


def restore_checkpoint(folder: Path, *, engine: Any, model: torch.nn.Module, config: NeoxConfig) -> TrainerState:
    """Load a checkpoint into a fresh engine and return the trainer's state (collective).

    Master weights, optimizer states, loss scale, counters and random streams are bitwise those of the save; at another
    number of data-parallel ranks the random streams of further ranks stay as they are seeded, at another tensor or
    pipeline degree those of all. The 16-bit weights are rebuilt from the masters. Vocabulary padding, which no token
    reads, becomes zeros (8-bit Adam lets it drift).

    Raises CheckpointError for a checkpoint of another model, and for 8-bit optimizer states at another number of ranks.
    """
    folder = Path(folder)
    state = open_engine(engine, model)
    wanted = build_table(Architecture.from_config(config))

    def load() -> dict[str, Any]:
        manifest = read_manifest(folder)
        check_same_parameters(manifest.parameters, wanted, where=str(folder))
        saved = read_json(folder / STATE_NAME)
        with open_tensors(folder) as reader:
            shards = ShardTable.held_at(state.position, wanted, config)
            _restore_tensors(state, shards, manifest.world, saved["optimizer"], reader)
            if _keeps_random_streams(manifest.world, state.position):
                _restore_random(reader, saved["random"])
        return saved

    with raising_the_first():
        saved = run_together(load)
    state.unlink()
    state.refresh()
    _restore_own_state(folder, engine)
    restore_groups(state.optimizer, saved["optimizer"]["groups"])
    restore_counters(engine, saved["engine"])
    restore_loss_scaler(state.loss_scaler, saved["loss_scaler"])
    return TrainerState.from_dict(saved["trainer"])


def restore_weights(folder: Path, *, engine: Any, model: torch.nn.Module, config: NeoxConfig) -> None:
    """Load a checkpoint's master weights alone into a fresh engine (collective): what else it has stays as it begins.

    Raises CheckpointError for a checkpoint of another model.
    """
    folder = Path(folder)
    state = open_engine(engine, model)
    wanted = build_table(Architecture.from_config(config))

    @torch.no_grad()
    def load() -> None:
        manifest = read_manifest(folder)
        check_same_parameters(manifest.parameters, wanted, where=str(folder))
        with open_tensors(folder) as reader:
            shards = ShardTable.held_at(state.position, wanted, config)
            for held in state.held:
                _fill(held, held.tensor.data, MASTER, shards, reader)

    with raising_the_first():
        run_together(load)
    state.refresh()
    if (own := find_own_state(engine)) is not None:
        own.restore(SavedOwnState(None, state.position.dp_size), get_rank())


def _keeps_random_streams(world: World, here: Position) -> bool:
    """Whether a rank's number means the same place: on any number of replicas, or on the very same grid."""
    if (world.tp, world.pp) != (here.tp_size, here.pp_size):
        return False
    return world.tp * world.pp == 1 or world.dp == here.dp_size


@torch.no_grad()
def _restore_tensors(
    state: EngineState, shards: ShardTable, world: World, saved: dict[str, Any], reader: TensorReader
) -> None:
    restore_opaque(state, saved, world, reader)
    for held in state.held:
        _fill(held, held.tensor.data, MASTER, shards, reader)
        optimizer_state = state.optimizer.state[held.tensor]
        for key in _stored_states(held, reader):
            values = torch.empty_like(held.tensor.data)
            _fill(held, values, key, shards, reader)
            put_state(optimizer_state, key, values)
        fused = is_fused(state.optimizer, held.tensor)
        for key, scalar in _stored_scalars(held, saved["scalars"]).items():
            put_state(optimizer_state, key, build_scalar(scalar, held.tensor, is_fused=fused))
        if not optimizer_state:
            del state.optimizer.state[held.tensor]


def _fill(held: Held, values: torch.Tensor, key: str, shards: ShardTable, reader: TensorReader) -> None:
    """Fill a held tensor's weights or one state; alignment and vocabulary padding become zeros."""
    flat = values.view(-1)
    flat.zero_()
    for segment in held.segments:
        length = min(segment.length, shards.count(segment.name) - segment.start)
        if length > 0:
            place = flat[segment.offset : segment.offset + length]
            fill_from_shards(place, reader, shards, key, segment.name, segment.start)


def _stored_states(held: Held, reader: TensorReader) -> list[str]:
    states = [reader.index.states(name) for name in held.names]
    if any(found != states[0] for found in states):
        raise CheckpointError(
            f"the parameters {', '.join(held.names)} were saved with different optimizer states and cannot be joined "
            "in one group; resume with the ZeRO stage and the optimizer they were saved with"
        )
    return [key for key in states[0] if key != MASTER]


def _stored_scalars(held: Held, scalars: dict[str, dict[str, Any]]) -> dict[str, Any]:
    values = [scalars.get(name, {}) for name in held.names]
    if any(value != values[0] for value in values):
        raise CheckpointError(
            f"the parameters {', '.join(held.names)} were saved with different step counts and cannot be joined in one "
            "group; resume with the ZeRO stage they were saved with"
        )
    return values[0]


def _restore_own_state(folder: Path, engine: Any) -> None:
    own = find_own_state(engine)
    if own is None:
        return

    def load() -> None:
        with open_tensors(folder) as reader:
            own.restore(SavedOwnState(reader, read_manifest(folder).world.size), get_rank())

    with raising_the_first():
        run_together(load)


def _restore_random(reader: TensorReader, values: dict[str, Any]) -> None:
    file = name_rank_file(get_rank())
    if file in values:
        tensors = {key: reader.read(file, key) for key in reader.keys(file) if is_random_state(key)}
        restore_random_state(tensors, values[file])
