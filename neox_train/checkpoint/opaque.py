"""Optimizer states that cannot be cut: 8-bit moments with their scales, restored as they were or refused."""

from __future__ import annotations

from typing import Any

from neox_train.checkpoint.adapters.held import EngineState, Held
from neox_train.checkpoint.collective import get_rank
from neox_train.checkpoint.optimizer_state import put_state
from neox_train.checkpoint.rank_file import name_rank_file, opaque_key
from neox_train.checkpoint.tensor_reader import TensorReader
from neox_train.errors import CheckpointError


def restore_opaque(state: EngineState, saved: dict[str, Any], reader: TensorReader) -> None:
    """Put back the opaque states of this rank's tensors.

    Raises CheckpointError where they belong to another layout: another number of ranks for partitioned states, or
    another ZeRO family.
    """
    stored: dict[str, list[dict[str, Any]]] = saved["opaque"]
    if not stored:
        return
    file = name_rank_file(0 if state.replicated else get_rank())
    if saved["layout"] != state.kind or (not state.replicated and len(stored) != state.data_parallel.size):
        raise CheckpointError(_refusal(saved, state, len(stored)))
    for entry in stored.get(file, []):
        if entry["held"] >= len(state.held) or state.held[entry["held"]].tensor.numel() != entry["length"]:
            raise CheckpointError(_refusal(saved, state, len(stored)))
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


def _refusal(saved: dict[str, Any], state: EngineState, ranks: int) -> str:
    return (
        f"the checkpoint's {saved['type']} states are in 8 bits on {ranks} data-parallel rank(s) ({saved['layout']}) "
        f"and cannot be resized to {state.data_parallel.size} ({state.kind}); resume with as many ranks and the same "
        "ZeRO stage, or start a run under a new name"
    )
