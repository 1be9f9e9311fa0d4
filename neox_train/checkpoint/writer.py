"""Saving a checkpoint: every rank writes its share, rank 0 makes it count with the manifest and one rename."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from neox_train.checkpoint.adapters.held import EngineState
from neox_train.checkpoint.collective import (
    RanksFailedError,
    gather_to_first,
    get_rank,
    get_world_size,
    run_on_first,
    run_together,
)
from neox_train.checkpoint.engine_state import capture_counters, capture_loss_scaler, open_engine
from neox_train.checkpoint.folders import discard_folder, name_step, unfinished_path, write_latest
from neox_train.checkpoint.fragments import FRAGMENTS_NAME, FragmentIndex
from neox_train.checkpoint.leftovers import clear_leftovers
from neox_train.checkpoint.manifest import FileRecord, Manifest, World, write_manifest
from neox_train.checkpoint.optimizer_state import describe_groups
from neox_train.checkpoint.own_state import capture_own_state
from neox_train.checkpoint.rank_file import RankFile, collect_rank_file
from neox_train.checkpoint.shard_table import ShardTable
from neox_train.checkpoint.space import describe_full_disk
from neox_train.checkpoint.state import TrainerState
from neox_train.checkpoint.table import ParameterTable, build_table
from neox_train.config.architecture import Architecture
from neox_train.errors import StorageError
from neox_train.files import flush_to_disk, free_bytes, make_folder, sha256_file, storage_errors, write_json

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

STATE_NAME = "state.json"
_FULL = (errno.ENOSPC, errno.EDQUOT)


def save_checkpoint(
    root: Path,
    *,
    engine: Any,
    model: torch.nn.Module,
    config: NeoxConfig,
    trainer: TrainerState,
    digests: Mapping[str, str | None],
    final: bool = False,
) -> Path:
    """Save the engine at a step boundary and return the step's folder (collective).

    On any failure every rank raises the same error, the unfinished folder is gone and older checkpoints are untouched;
    StorageError with path, bytes needed and bytes free where the disk is full. A checkpoint of the same step is
    replaced once the new one is complete.
    """
    with capture_own_state(engine) as own:
        return _save(Path(root), engine, model, config, trainer, digests, final, own)


def _save(
    root: Path,
    engine: Any,
    model: torch.nn.Module,
    config: NeoxConfig,
    trainer: TrainerState,
    digests: Mapping[str, str | None],
    final: bool,
    own: Mapping[str, torch.Tensor],
) -> Path:
    table = build_table(Architecture.from_config(config))
    state = open_engine(engine, model)
    shards = ShardTable.held_at(state.position, table, config)
    file = collect_rank_file(state, shards, get_rank())
    file.tensors |= own
    folder = unfinished_path(root, trainer.step)
    sizes = gather_to_first(file.size_bytes)
    try:
        run_on_first(lambda: _make_place(root, sum(sizes)))
        record = run_together(lambda: _write_rank_file(folder, file))
        records = gather_to_first((file.name, record))
        contributions = gather_to_first(_describe(file))
        run_on_first(
            lambda: _complete(
                folder,
                root / name_step(trainer.step),
                contributions,
                _state_json(engine, state, trainer, contributions),
                dict(records),
                _build_manifest(config, table, trainer.step, state, digests, final),
            )
        )
    except RanksFailedError as failed:
        _raise_failure(root, folder, sum(sizes), failed)
    return root / name_step(trainer.step)


def _make_place(root: Path, needed: int) -> None:
    make_folder(root)
    clear_leftovers(root)
    free = free_bytes(root)
    if free < needed:
        raise OSError(errno.ENOSPC, "no room for the next checkpoint")


def _write_rank_file(folder: Path, file: RankFile) -> FileRecord:
    with storage_errors(folder):
        folder.mkdir(exist_ok=True)
        return file.write(folder)


def _describe(file: RankFile) -> dict[str, Any]:
    return {
        "file": file.name,
        "fragments": file.fragments,
        "scalars": file.scalars,
        "opaque": file.opaque,
        "random": file.random_values,
    }


def _state_json(
    engine: Any, state: EngineState, trainer: TrainerState, contributions: list[dict[str, Any]]
) -> dict[str, Any]:
    scalars: dict[str, Any] = {}
    for contribution in contributions:
        scalars |= contribution["scalars"]
    return {
        "trainer": trainer.to_dict(),
        "engine": capture_counters(engine),
        "loss_scaler": capture_loss_scaler(state.loss_scaler),
        "optimizer": {
            "type": type(state.optimizer).__name__,
            "layout": state.kind,
            "groups": describe_groups(state.optimizer),
            "scalars": scalars,
            "opaque": {c["file"]: c["opaque"] for c in contributions if c["opaque"]},
        },
        "random": {c["file"]: c["random"] for c in contributions},
    }


def _build_manifest(
    config: NeoxConfig,
    table: ParameterTable,
    step: int,
    state: EngineState,
    digests: Mapping[str, str | None],
    final: bool,
) -> Manifest:
    relevant = config.training_relevant()
    return Manifest(
        step=step,
        world=World(
            size=get_world_size(),
            dp=state.position.dp_size,
            tp=state.position.tp_size,
            pp=state.position.pp_size,
        ),
        parameters=table,
        files={},
        digests=dict(digests),
        training_relevant=relevant,
        other_settings={key: value for key, value in config.to_dict().items() if key not in relevant},
        final=final,
    )


def _complete(
    folder: Path,
    target: Path,
    contributions: list[dict[str, Any]],
    state: dict[str, Any],
    files: dict[str, FileRecord],
    manifest: Manifest,
) -> None:
    """Write the JSON files and the manifest last, then give the folder its name."""
    with storage_errors(folder):
        FragmentIndex((f, c["file"]) for c in contributions for f in c["fragments"]).write(folder)
        write_json(folder / STATE_NAME, state)
        for name in (FRAGMENTS_NAME, STATE_NAME):
            path = folder / name
            files[name] = FileRecord(bytes=path.stat().st_size, sha256=sha256_file(path))
        manifest.files.update(sorted(files.items()))
        write_manifest(folder, manifest)
        flush_to_disk(folder)
        if target.exists():
            discard_folder(target)
        folder.rename(target)
        flush_to_disk(target.parent)
        write_latest(target.parent, manifest.step)


def _raise_failure(root: Path, folder: Path, needed: int, failed: RanksFailedError) -> None:
    """Remove what was written, measure the room that then remains, and raise one error on every rank."""
    needed, free = run_on_first(lambda: (needed, _remove_and_measure(root, folder)))
    if any(failure.errno in _FULL for failure in failed.failures):
        raise StorageError(describe_full_disk(root, needed, free)) from failed
    raise failed.failures[0].to_error() from failed


def _remove_and_measure(root: Path, folder: Path) -> int:
    shutil.rmtree(folder, ignore_errors=True)
    return free_bytes(root)
