from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from neox_train.checkpoint.hf_keys import list_key_rows
from neox_train.checkpoint.hf_shards import build_index, describe_file, plan_shards, write_shard
from tests.model.architectures import make_architecture, make_random_model


@pytest.mark.parametrize("residual", ["parallel", "parallel_tied"])
@pytest.mark.parametrize("limit", [1, 20_000, 60_000, 10**9])
def test_a_plan_holds_every_tensor_once_within_the_limit(limit: int, residual: str) -> None:
    architecture = make_architecture(residual=residual)
    shards = plan_shards(architecture, dtype="float32", max_shard_bytes=limit)
    names = [name for shard in shards for name in shard.names]
    assert names == [name for row in list_key_rows(architecture) for name in row.hf]
    for shard in shards:
        assert shard.count_bytes("float32") <= limit or len(shard.rows) == 1
    assert (len(shards) == 1) == (limit == 10**9)
    assert shards[0].file == (
        "model.safetensors" if len(shards) == 1 else f"model-00001-of-{len(shards):05d}.safetensors"
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_shard_is_what_the_plan_says(tmp_path: Path, dtype: str) -> None:
    architecture = make_architecture(residual="parallel_tied")
    weights = make_random_model(architecture).state_dict()
    shards = plan_shards(architecture, dtype=dtype, max_shard_bytes=40_000)
    for shard in shards:
        record = write_shard(tmp_path, shard, lambda: weights, architecture, dtype)
        assert record == describe_file(tmp_path / shard.file)
        with safe_open(tmp_path / shard.file, framework="pt") as file:
            assert file.metadata() == {"format": "pt"}
            assert sorted(file.keys()) == sorted(shard.names)
            stored = [file.get_tensor(name) for name in shard.names]
        assert {tensor.dtype for tensor in stored} == {getattr(torch, dtype)}
        assert sum(tensor.nbytes for tensor in stored) == shard.count_bytes(dtype)
    index = build_index(shards, dtype=dtype)
    assert index["metadata"]["total_size"] == sum(shard.count_bytes(dtype) for shard in shards)
    assert index["weight_map"]["embed_out.weight"] == shards[-1].file
    assert not list(tmp_path.glob(".*"))
