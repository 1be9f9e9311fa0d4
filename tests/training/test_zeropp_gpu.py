"""ZeRO++'s quantised weights (qwZ) and gradients (qgZ) on a GPU: bytes on the wire, losses, and resume.

Two processes: on two GPUs or more over NCCL, on one GPU over gloo by way of host memory. DeepSpeed quantises gradients
between nodes only, which it counts as ranks by GPUs of a machine: that is two here on one GPU, so qgZ is seen there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.cpp_extension import CUDA_HOME

from neox_train.config.layout import DatasetFolder
from tests.gloo import run_ranks

STEPS, SAVED_AT = 30, 15
MODEL: dict[str, Any] = {
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_layers": 4,
    "seq_length": 64,
    "max_position_embeddings": 64,
    "train_batch_size": 8,
    "train_micro_batch_size_per_gpu": None,
    "make_vocab_size_divisible_by": 128,
    "eval_iters": 4,
    "precision": "bfloat16",
    "communication_data_type": "fp16",
    "torch_compile": False,
    "loss_chunk_tokens": 0,
}
SHORT_LIVED: dict[str, Any] = {
    "stage": 3,
    "stage3_param_persistence_threshold": 20_000,
    "stage3_max_reuse_distance": 0,
    "stage3_max_live_parameters": 0,
    "stage3_prefetch_bucket_size": 0,
}
"""So that both passes gather weights. Biases and norms stay whole: kernels want multiples of 8."""


def case(**keys: Any) -> dict[str, Any]:
    return {**MODEL, "zero_optimization": {**SHORT_LIVED, **keys}}


CASES: dict[str, dict[str, Any]] = {
    "plain": case(),
    "qwZ": case(zero_quantized_weights=True),
    "qgZ": case(zero_quantized_gradients=True),
    "both": case(zero_quantized_weights=True, zero_quantized_gradients=True),
}


def train(dataset: DatasetFolder, folder: Path, cases: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    job = {"dataset": str(dataset.path), "results": str(folder), "steps": STEPS, "save_at": SAVED_AT}
    (folder / "job.json").write_text(json.dumps({**job, "methods": cases}))
    run_ranks("tests.training.zeropp_worker", folder / "job.json", 2)
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in cases}


@pytest.fixture(scope="module")
def trained(dataset: DatasetFolder, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    if CUDA_HOME is None:
        pytest.skip("DeepSpeed builds these kernels with nvcc, and there is no CUDA toolkit")
    return train(dataset, tmp_path_factory.mktemp("zeropp"), CASES)


def count(record: dict[str, Any], kind: str, what: str = "wire_bytes") -> float:
    """Of the last step, in all groups."""
    traffic = record["whole"]["traffic"][-1]
    return sum(one[what] for name, one in traffic.items() if name.endswith(f".{kind}"))


@pytest.mark.gpu
def test_quantised_weights_halve_the_bytes_of_gathers(trained: dict[str, dict[str, Any]]) -> None:
    plain, quantised = (count(trained[name], "all_gather_into_tensor") for name in ("plain", "qwZ"))
    assert quantised < 0.6 * plain


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() > 1, reason="qgZ works between machines; ranks on one GPU stand for two")
def test_quantised_gradients_travel_in_four_bits(trained: dict[str, dict[str, Any]]) -> None:
    plain = count(trained["plain"], "reduce_scatter_tensor")
    assert count(trained["qgZ"], "all_to_all_single", "calls") > 0
    sent = count(trained["qgZ"], "reduce_scatter_tensor") + count(trained["qgZ"], "all_to_all_single")
    assert sent < 0.5 * plain


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in CASES if name != "plain"])
def test_it_learns_nearly_what_whole_numbers_learn(trained: dict[str, dict[str, Any]], name: str) -> None:
    seen, plain = trained[name]["whole"], trained["plain"]["whole"]
    assert plain["losses"][0] - plain["validation"] > 1.0
    assert abs(seen["validation"] - plain["validation"]) < 0.1


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_a_resumed_training_ends_near_the_unbroken_one(trained: dict[str, dict[str, Any]], name: str) -> None:
    whole, resumed = trained[name]["whole"], trained[name]["resumed"]
    assert resumed["losses"][0] == pytest.approx(whole["losses"][SAVED_AT], abs=0.01)
    assert resumed["validation"] == pytest.approx(whole["validation"], abs=0.05)


@pytest.mark.full
@pytest.mark.distributed
def test_carrying_by_way_of_host_memory_changes_nothing(
    dataset: DatasetFolder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # The stand-in for NCCL on a shared GPU, held to gloo itself where both run.
    plain = {"plain": {**case(), "precision": "fp32", "communication_data_type": None}}
    folder = tmp_path_factory.mktemp("carried")
    carried = train(dataset, folder, plain)["plain"]["whole"]
    run_ranks("tests.training.compression.worker", folder / "job.json", 2)
    straight = json.loads((folder / "plain.json").read_text())["whole"]
    assert carried["losses"] == straight["losses"]
