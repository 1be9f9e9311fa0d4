"""Optimizer states that cannot be cut: 8-bit moments with their scales, restored as they were or refused."""

from __future__ import annotations

from typing import Any

from neox_train.checkpoint.adapters.held import EngineState, Held
from neox_train.checkpoint.collective import get_rank
from neox_train.checkpoint.manifest import World
from neox_train.checkpoint.optimizer_state import put_state
from neox_train.checkpoint.rank_file import name_rank_file, opaque_key
from neox_train.checkpoint.tensor_reader import TensorReader
from neox_train.config.grid import GridShape, Place
from neox_train.errors import CheckpointError


def restore_opaque(state: EngineState, saved: dict[str, Any], world: World, reader: TensorReader) -> None:
    """Put back the opaque states of this rank's tensors.

    Raises CheckpointError where they belong to another layout: another number of ranks for partitioned states, or
    another ZeRO family.
    """
    stored: dict[str, list[dict[str, Any]]] = saved["opaque"]
    if not stored:
        return
    here = state.position
    same = (world.tp, world.pp) == (here.tp_size, here.pp_size) and (state.replicated or world.dp == here.dp_size)
    if saved["layout"] != state.kind or not same:
        raise CheckpointError(_refusal(saved, state, world))
    # Where all replicas held the same states, the first of them wrote them down.
    writer = GridShape(pp=world.pp, dp=world.dp, tp=world.tp).rank_of(Place(here.pp, 0, here.tp))
    file = name_rank_file(writer if state.replicated else get_rank())
    for entry in stored.get(file, []):
        if entry["held"] >= len(state.held) or state.held[entry["held"]].tensor.numel() != entry["length"]:
            raise CheckpointError(_refusal(saved, state, world))
        _restore_entry(state, state.held[entry["held"]], entry, file, reader)


def _restore_entry(state: EngineState, held: Held, entry: dict[str, Any], file: str, reader: TensorReader) -> None:
    optimizer: Any = state.optimizer
    values = optimizer.state[held.tensor]
    if not values and hasattr(optimizer, "init_state"):
        _allocate(optimizer, held)
    for key in entry["keys"]:
        value = reader.read(file, opaque_key(entry["held"], key))
        put_state(values, key, value.to(held.tensor.device))


def _allocate(optimizer: Any, held: Held) -> None:
    """Let bitsandbytes allocate its states (paged memory, too), so that they are filled in place."""
    group = optimizer.param_groups[held.group]
    # ZeRO 3 lists a sub-group's tensor in its group during the step only.
    listed, group["params"] = group["params"], [held.tensor]
    try:
        optimizer.init_state(group, held.tensor, held.group, 0)
    finally:
        group["params"] = listed


def _refusal(saved: dict[str, Any], state: EngineState, world: World) -> str:
    here = state.position
    return (
        f"the checkpoint's {saved['type']} states are in 8 bits on {_show(world.dp, world.tp, world.pp)} "
        f"({saved['layout']}) and cannot be resized to {_show(here.dp_size, here.tp_size, here.pp_size)} "
        f"({state.kind}); resume with as many ranks and the same ZeRO stage, or start a run under a new name"
    )


def _show(dp: int, tp: int, pp: int) -> str:
    others = [f"{size} {name} rank(s)" for name, size in (("tensor-parallel", tp), ("pipeline", pp)) if size > 1]
    return " x ".join([f"{dp} data-parallel rank(s)", *others])
