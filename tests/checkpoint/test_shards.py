"""Parameters stored in tensor-parallel shards, read back whole and in any other shards."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from neox_train.checkpoint.fragments import MASTER, Fragment, FragmentIndex
from neox_train.checkpoint.manifest import ParameterRecord
from neox_train.checkpoint.shard_table import ShardTable
from neox_train.checkpoint.shards import fill_from_shards, read_whole
from neox_train.checkpoint.tensor_file import write_tensors
from neox_train.checkpoint.tensor_reader import open_tensors

PARAMETERS = {
    "vocabulary": ParameterRecord(shape=(97, 3), shard_dim=0, is_vocabulary=True),
    "rows": ParameterRecord(shape=(8, 5), shard_dim=0),
    "columns": ParameterRecord(shape=(5, 8), shard_dim=1),
    "gate and up": ParameterRecord(shape=(16, 3), shard_dim=0, shard_parts=2),
    "bias": ParameterRecord(shape=(7,), shard_dim=None),
}
CUTS = [(1, 112), (2, 112), (2, 256), (4, 128), (4, 260)]
"""Ranks and padded vocabulary. Of 4 ranks the second holds 32 rows of 128, and as many, but others, of 260."""


def make_whole(name: str) -> torch.Tensor:
    shape = PARAMETERS[name].shape
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).view(shape)


def make_table(size: int, padded: int, rank: int) -> ShardTable:
    return ShardTable(parameters=PARAMETERS, padded_vocab_size=padded, rank=rank, size=size)


@pytest.fixture(scope="module", params=CUTS, ids=str)
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the ranks of one cut leave it, without padding."""
    size, padded = request.param
    folder = tmp_path_factory.mktemp("stored")
    placed = []
    for rank in range(size):
        shards, tensors = make_table(size, padded, rank), {}
        for name in PARAMETERS:
            shard, of = shards.find(name)
            count = shards.count(name)
            if (of == 1 and rank > 0) or count == 0:
                continue
            fragment = Fragment(MASTER, name, 0, count, shard, of)
            tensors[fragment.key] = shards.cut(name, make_whole(name))[:count].clone()
            placed.append((fragment, f"rank-{rank}"))
        write_tensors(folder / f"rank-{rank}", tensors)
    FragmentIndex(placed).write(folder)
    return folder


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_whole_comes_back(stored: Path, name: str) -> None:
    with open_tensors(stored) as reader:
        assert read_whole(reader, name, PARAMETERS[name]).equal(make_whole(name))


@pytest.mark.parametrize(("size", "padded"), CUTS)
def test_any_other_cut_is_filled_from_it(stored: Path, size: int, padded: int) -> None:
    with open_tensors(stored) as reader:
        for rank, name in itertools.product(range(size), PARAMETERS):
            shards = make_table(size, padded, rank)
            count = shards.count(name)
            wanted = shards.cut(name, make_whole(name))
            assert not wanted[count:].any()
            for start, stop in ((0, count), (count // 3, count - count // 4)):
                if start < stop:
                    flat = torch.full((stop - start,), -1.0)
                    fill_from_shards(flat, reader, shards, MASTER, name, start)
                    assert flat.equal(wanted[start:stop]), f"{name} of rank {rank}"
