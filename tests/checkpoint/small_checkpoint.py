"""Real, small checkpoints without an engine: the same files, index and manifest that a training writes."""

from __future__ import annotations

from pathlib import Path

import torch

from neox_train.checkpoint.folders import name_step, write_latest
from neox_train.checkpoint.fragments import FRAGMENTS_NAME, MASTER, Fragment, FragmentIndex
from neox_train.checkpoint.manifest import FileRecord, Manifest, ParameterRecord, World, write_manifest
from neox_train.checkpoint.rank_file import name_rank_file
from neox_train.checkpoint.tensor_file import write_tensors
from neox_train.files import sha256_file, write_json

RELEVANT = {"hidden_size": 64, "seed": 1234}
DIGESTS = {"config": "c" * 64, "dataset": "d" * 64, "tokenizer": "t" * 64}
WEIGHTS = {"word_embeddings.weight": (7, 4), "final_norm.weight": (4,)}


def make_weights(step: int) -> dict[str, torch.Tensor]:
    """The weights a step holds."""
    generator = torch.Generator().manual_seed(step)
    return {name: torch.randn(shape, generator=generator) for name, shape in WEIGHTS.items()}


def write_checkpoint(root: Path, step: int, *, ranks: int = 2, final: bool = False) -> Path:
    """Write a complete checkpoint whose weights are cut over ``ranks`` files."""
    folder = root / name_step(step)
    folder.mkdir(parents=True)
    files: dict[str, FileRecord] = {}
    stored = []
    for rank in range(ranks):
        tensors = {}
        for name, weight in make_weights(step).items():
            begin, end = weight.numel() * rank // ranks, weight.numel() * (rank + 1) // ranks
            fragment = Fragment(MASTER, name, begin, end - begin)
            tensors[fragment.key] = weight.view(-1)[begin:end]
            stored.append((fragment, name_rank_file(rank)))
        files[name_rank_file(rank)] = write_tensors(folder / name_rank_file(rank), tensors)
    FragmentIndex(stored).write(folder)
    write_json(folder / "state.json", {"trainer": {"step": step}})
    for name in (FRAGMENTS_NAME, "state.json"):
        path = folder / name
        files[name] = FileRecord(bytes=path.stat().st_size, sha256=sha256_file(path))
    manifest = Manifest(
        step=step,
        world=World(size=ranks, dp=ranks),
        parameters={name: ParameterRecord(shape=shape, shard_dim=None) for name, shape in WEIGHTS.items()},
        files=files,
        digests=dict(DIGESTS),
        training_relevant=dict(RELEVANT),
        other_settings={"train_iters": 40, "log_interval": 10},
        final=final,
    )
    write_manifest(folder, manifest)
    write_latest(root, step)
    return folder


def list_tree(root: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
