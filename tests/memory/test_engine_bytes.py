"""The static part of the estimate against the tensors of real DeepSpeed engines, byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from neox_train.memory.activations import count_activations, count_embedding, count_final_norm
from neox_train.memory.gradients import count_gradients
from neox_train.memory.plan import plan_rank, plan_stages
from neox_train.memory.states import count_static
from tests.gloo import run_ranks
from tests.memory.plans import make_cluster, make_config

RANKS = 2
BUCKET = 20_000
"""Smaller than the model, so that gradients pass through several buckets."""
UNLISTED_BYTES = 2600
"""Scalars, rotary tables, a code book that 8-bit Lion holds and does not read.

The smallest tensor of a part that could be forgotten is far larger."""
PIPELINE_TOKEN_BYTES = 3 * 8 * 4 * 65
"""A pipeline's engine keeps its last micro-batch: inputs, targets, and the batch both were cut from."""


def _zero(stage: int) -> dict[str, Any]:
    return {"zero_optimization": {"stage": stage, "reduce_bucket_size": BUCKET, "allgather_bucket_size": BUCKET}}


def _offload(stage: int, *more: str) -> dict[str, Any]:
    blocks = {name: {"device": "cpu"} for name in ("offload_optimizer", *more)}
    return {"zero_optimization": {**_zero(stage)["zero_optimization"], **blocks}}


def _optimizer(kind: str) -> dict[str, Any]:
    return {"type": kind, "params": {"lr": 0.001}}


TENSOR = {"model_parallel_size": 2}
SELECTIVE = {"checkpoint_activations": True, "checkpoint_granularity": "selective", "mlp_multiple_of": 2}
CASES: dict[str, dict[str, Any]] = {
    "fp32 without ZeRO": _zero(0),
    "fp32 ZeRO 1": _zero(1),
    "fp32 ZeRO 2": _zero(2),
    "fp32 ZeRO 1, one group": {**_zero(1), "weight_decay": 0.0},
    "fp32 ZeRO 1, padding": {**_zero(1), "hidden_size": 36, "norm": "rmsnorm", "intermediate_size": 51},
    "fp32 ZeRO 1, accumulation": {**_zero(1), "gradient_accumulation_steps": 2},
    "fp32 ZeRO 1, tied": {**_zero(1), "no_weight_tying": False},
    "fp32 ZeRO 1, momentum": {**_zero(1), "optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}}},
    "bf16 without ZeRO, accumulation": {**_zero(0), "precision": "bfloat16", "gradient_accumulation_steps": 2},
    "bf16 without ZeRO, pipeline": {**_zero(0), "precision": "bfloat16", "pipe_parallel_size": 2},
    "bf16 ZeRO 1": {**_zero(1), "precision": "bfloat16"},
    "bf16 ZeRO 1, bf16 accumulation": {
        **_zero(1),
        "precision": "bfloat16",
        "data_types": {"grad_accum_dtype": "bf16"},
    },
    "bf16 ZeRO 2": {**_zero(2), "precision": "bfloat16"},
    "bf16 ZeRO 2, accumulation": {**_zero(2), "precision": "bfloat16", "gradient_accumulation_steps": 2},
    "fp32 ZeRO 3": _zero(3),
    "bf16 ZeRO 3": {**_zero(3), "precision": "bfloat16"},
    "fp32 ZeRO 1, 8-bit": {**_zero(1), "use_bnb_optimizer": True},
    "fp32 ZeRO 1, 8-bit Lion": {**_zero(1), "use_bnb_optimizer": True, "optimizer": _optimizer("Lion")},
    "fp32 ZeRO 3, 8-bit": {**_zero(3), "use_bnb_optimizer": True},
    "bf16 without ZeRO, Muon": {**_zero(0), "precision": "bfloat16", "optimizer": _optimizer("Muon")},
    "bf16 ZeRO 1, Muon": {**_zero(1), "precision": "bfloat16", "optimizer": _optimizer("Muon")},
    "fp32 ZeRO 3, Muon": {**_zero(3), "optimizer": _optimizer("Muon")},
    "fp32 without ZeRO, 8-bit": {**_zero(0), "use_bnb_optimizer": True},
    "fp32 without ZeRO, local updates": {
        **_zero(0),
        "gradient_compression": "local_update",
        "local_update_steps": 1,
        "local_update_start_step": 0,
    },
    "fp32 without ZeRO, tensor": {**_zero(0), **TENSOR},
    "bf16 ZeRO 1, tensor and sequence": {**_zero(1), **TENSOR, "sequence_parallel": True, "precision": "bfloat16"},
    "fp32 ZeRO 2, tensor, gated": {**_zero(2), **TENSOR, "activation": "swiglu", "mlp_multiple_of": 2},
    "fp32 without ZeRO, selective shards": {**_zero(0), **TENSOR, **SELECTIVE, "activation": "swiglu"},
    "fp32 ZeRO 1, selective shards and shares": {**_zero(1), **TENSOR, **SELECTIVE, "sequence_parallel": True},
    "flat masters": {**_zero(0), "precision": "bfloat16", "flat_master_weights": True},
    "flat masters, ZeRO 1, accumulation": {
        **_zero(1),
        "precision": "bfloat16",
        "flat_master_weights": True,
        "gradient_accumulation_steps": 2,
    },
    "fp32 without ZeRO, pipeline": {**_zero(0), "pipe_parallel_size": 2},
    "bf16 ZeRO 1, pipeline, tied": {
        **_zero(1),
        "pipe_parallel_size": 2,
        "precision": "bfloat16",
        "no_weight_tying": False,
    },
    "fp32 ZeRO 1, offloaded, accumulation": {**_offload(1), "gradient_accumulation_steps": 2},
    "bf16 ZeRO 2, offloaded": {**_offload(2), "precision": "bfloat16"},
    "bf16 ZeRO 2, offloaded, accumulation": {
        **_offload(2),
        "precision": "bfloat16",
        "gradient_accumulation_steps": 2,
    },
    "bf16 ZeRO 2, offloaded, tensor": {**_offload(2), **TENSOR, "precision": "bfloat16"},
    "bf16 ZeRO 3, offloaded": {**_offload(3), "precision": "bfloat16"},
    "bf16 ZeRO 3, weights offloaded": {**_offload(3, "offload_param"), "precision": "bfloat16"},
    "bf16 ZeRO 2, 8-bit": {**_zero(2), "precision": "bfloat16", "use_bnb_optimizer": True},
}


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What every rank's engine held, by case."""
    folder = tmp_path_factory.mktemp("engines")
    cases = folder / "cases.json"
    cases.write_text(json.dumps(list(CASES.values())))
    run_ranks("tests.memory.engine_worker", cases, RANKS)
    seen = [json.loads((folder / f"seen-{rank}.json").read_text()) for rank in range(RANKS)]
    return {name: [rank[index] for rank in seen] for index, name in enumerate(CASES)}


@pytest.mark.distributed
@pytest.mark.parametrize("case", CASES)
def test_static_bytes_equal_the_engine_s_tensors(case: str, engines: dict[str, list[dict[str, Any]]]) -> None:
    plans = plan_stages(make_config(world_size=RANKS, **CASES[case]), make_cluster())
    for rank, seen in enumerate(engines[case]):
        predicted = count_static(plans[rank * len(plans) // RANKS])
        for part in ("weights", "master_weights", "optimizer_states", "gradients"):
            assert seen[part] == getattr(predicted, part), f"{part} of {seen['wrapper']}"
        tokens = PIPELINE_TOKEN_BYTES if len(plans) > 1 else 0
        assert 0 <= seen["unlisted"] - predicted.communication <= UNLISTED_BYTES + tokens


@pytest.mark.distributed
@pytest.mark.parametrize("case", [case for case in CASES if "pipeline" not in case])
def test_gradient_bytes_before_the_step_equal_those_of_the_most_loaded_rank(
    case: str, engines: dict[str, list[dict[str, Any]]]
) -> None:
    predicted = count_gradients(plan_rank(make_config(world_size=RANKS, **CASES[case]), make_cluster()))
    assert max(seen["after_backward"] for seen in engines[case]) == predicted.stepped


@pytest.mark.distributed
@pytest.mark.parametrize("case", [name for name in CASES if "tensor" in name])
def test_a_tensor_parallel_rank_saves_its_part_of_the_activations(
    case: str, engines: dict[str, list[dict[str, Any]]]
) -> None:
    plan = plan_rank(make_config(world_size=RANKS, **CASES[case]), make_cluster())
    shard = plan.architecture.padded_vocab_size // RANKS
    for rank, seen in enumerate(engines[case]):
        probabilities = 4 * plan.tokens * min(shard, plan.architecture.vocab_size - rank * shard)
        # With them each target's place, whether it is this rank's own, and whether it counts.
        assert seen["saved"] == count_activations(plan) + probabilities + (8 + 1 + 1) * plan.tokens


@pytest.mark.distributed
@pytest.mark.parametrize("case", [name for name in CASES if "selective" in name])
def test_a_tensor_parallel_rank_keeps_its_products(case: str, engines: dict[str, list[dict[str, Any]]]) -> None:
    plan = plan_rank(make_config(world_size=RANKS, **CASES[case]), make_cluster())
    # The result stands for the first layer's input, which was there before.
    expected = count_activations(plan) - count_embedding(plan) - count_final_norm(plan)
    assert [seen["kept"] for seen in engines[case]] == [expected] * RANKS
