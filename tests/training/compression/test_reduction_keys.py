"""DeepSpeed's keys of reduction on two real processes: what each changes in calls, bytes, formats or values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.memory.gradients import count_secondary_partitions
from neox_train.memory.plan import plan_rank
from tests.gloo import run_ranks
from tests.memory.plans import make_cluster
from tests.training.synthetic import resolve

pytestmark = pytest.mark.distributed

STEPS, SAVED_AT = 3, 2


def zero(stage: int, **changes: Any) -> dict[str, Any]:
    return {
        "zero_optimization": {"stage": stage, "reduce_bucket_size": 10**6, "allgather_bucket_size": 10**6, **changes}
    }


BASE: dict[str, Any] = {"train_batch_size": 8, "train_micro_batch_size_per_gpu": None, "eval_iters": 1}
BF16: dict[str, Any] = {"precision": "bfloat16", "data_types": {"grad_accum_dtype": "bf16"}}
CASES: dict[str, dict[str, Any]] = {
    "stage 0": zero(0),
    "stage 0, fp16 wire": {**zero(0), "communication_data_type": "fp16"},
    "stage 0, prescale": {**zero(0), "prescale_gradients": True},
    "stage 0, predivide": {**zero(0), "gradient_predivide_factor": 4.0},
    "stage 1, bf16": {**zero(1), **BF16},
    "stage 1, bf16, fp32_allreduce": {**zero(1), **BF16, "fp32_allreduce": True},
    "stage 2": zero(2),
    "stage 2, bf16 wire": {**zero(2), "communication_data_type": "bf16"},
    "stage 2, small buckets": zero(2, reduce_bucket_size=20_000),
    "stage 2, small gathers": zero(2, allgather_bucket_size=20_000),
    "stage 2, reduce_scatter off": zero(2, reduce_scatter=False),
    "stage 2, overlap": zero(2, overlap_comm=True),
    "stage 2, round robin": zero(2, round_robin_gradients=True),
}
SHORT_LIVED: dict[str, Any] = {"stage3_param_persistence_threshold": 0, "stage3_max_reuse_distance": 0}
SHORT_LIVED |= {"stage3_max_live_parameters": 0, "stage3_prefetch_bucket_size": 0}
"""So that the backward pass gathers weights again, as in a model that does not fit."""
HPZ: dict[str, dict[str, Any]] = {
    "stage 3": zero(3, **SHORT_LIVED),
    "stage 3, hpZ": zero(3, **SHORT_LIVED, zero_hpz_partition_size=2),
}


@pytest.fixture(scope="module")
def seen(dataset: DatasetFolder, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the ranks did in every case."""
    return train(CASES, dataset, tmp_path_factory.mktemp("reduction"), ranks=2)


def train(cases: dict[str, dict[str, Any]], dataset: DatasetFolder, folder: Path, *, ranks: int) -> dict[str, Any]:
    methods = {name: {**BASE, **case} for name, case in cases.items()}
    job = {"dataset": str(dataset.path), "results": str(folder), "steps": STEPS, "save_at": SAVED_AT}
    (folder / "job.json").write_text(json.dumps({**job, "methods": methods}))
    run_ranks("tests.training.compression.worker", folder / "job.json", ranks)
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in cases}


def count(record: dict[str, Any], what: str) -> int:
    """Calls or bytes of the last step."""
    return sum(one[what] for one in record["whole"]["traffic"][-1].values())


def formats(record: dict[str, Any]) -> set[str]:
    return {dtype for one in record["whole"]["traffic"][-1].values() for dtype in one["dtypes"]}


def losses(record: dict[str, Any]) -> list[float]:
    return record["whole"]["losses"]


def test_the_format_on_the_wire_halves_or_doubles_the_bytes(seen: dict[str, dict[str, Any]]) -> None:
    gradients = seen["stage 0"]["whole"]["parameters"]
    for wide, narrow, dtype in (
        ("stage 0", "stage 0, fp16 wire", "float16"),
        ("stage 2", "stage 2, bf16 wire", "bfloat16"),
        ("stage 1, bf16, fp32_allreduce", "stage 1, bf16", "bfloat16"),
    ):
        assert dtype in formats(seen[narrow])
        assert count(seen[wide], "wire_bytes") - count(seen[narrow], "wire_bytes") == 2 * gradients
        assert losses(seen[narrow]) == pytest.approx(losses(seen[wide]), abs=1e-3)


@pytest.mark.parametrize(("case", "divisor"), [("stage 0, prescale", 2.0), ("stage 0, predivide", 4.0)])
def test_gradients_are_divided_before_the_sum(seen: dict[str, dict[str, Any]], case: str, divisor: float) -> None:
    plain, divided = seen["stage 0"]["whole"], seen[case]["whole"]
    assert divided["largest_sent"] == pytest.approx([value / divisor for value in plain["largest_sent"]])
    assert losses(seen[case]) == pytest.approx(losses(seen["stage 0"]), abs=1e-6)
    assert count(seen[case], "wire_bytes") == count(seen["stage 0"], "wire_bytes")


def test_smaller_buckets_make_more_calls_of_the_same_bytes(seen: dict[str, dict[str, Any]]) -> None:
    assert count(seen["stage 2, small buckets"], "calls") >= count(seen["stage 2"], "calls") + 5
    assert count(seen["stage 2, small buckets"], "wire_bytes") == count(seen["stage 2"], "wire_bytes")


def test_the_size_of_gathers_is_never_read_where_torch_gathers_into_one_tensor(seen: dict[str, dict[str, Any]]) -> None:
    plain, small = seen["stage 2"]["whole"]["traffic"][-1], seen["stage 2, small gathers"]["whole"]["traffic"][-1]
    assert {name: one["calls"] for name, one in small.items()} == {name: one["calls"] for name, one in plain.items()}
    assert "dp.all_gather_into_tensor" in plain and "dp.all_gather" not in plain


def test_reduce_scatter_divides_before_the_sum_and_all_reduce_after(seen: dict[str, dict[str, Any]]) -> None:
    scattered, reduced = (seen[name]["whole"] for name in ("stage 2", "stage 2, reduce_scatter off"))
    assert (scattered["engine"]["reduce_scatter"], reduced["engine"]["reduce_scatter"]) == (True, False)
    assert reduced["largest_sent"] == pytest.approx([2 * value for value in scattered["largest_sent"]])


@pytest.mark.parametrize(
    ("case", "attribute"), [("stage 2, overlap", "overlap_comm"), ("stage 2, round robin", "round_robin_gradients")]
)
def test_keys_without_an_effect_on_bytes_reach_the_engine(
    seen: dict[str, dict[str, Any]], case: str, attribute: str
) -> None:
    assert (seen["stage 2"]["whole"]["engine"][attribute], seen[case]["whole"]["engine"][attribute]) == (False, True)


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("stage 2") and "wire" not in case])
def test_keys_of_zero_2_leave_bytes_and_losses_as_they_are(seen: dict[str, dict[str, Any]], case: str) -> None:
    assert seen[case]["whole"]["engine"]["contiguous_gradients"] is True
    assert count(seen[case], "wire_bytes") == count(seen["stage 2"], "wire_bytes")
    assert losses(seen[case]) == pytest.approx(losses(seen["stage 2"]), abs=1e-6)


@pytest.mark.full
def test_hpz_gathers_for_the_backward_pass_inside_its_groups(
    dataset: DatasetFolder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    seen = train(HPZ, dataset, tmp_path_factory.mktemp("hpz"), ranks=4)
    plain, hpz = seen["stage 3"], seen["stage 3, hpZ"]
    assert losses(hpz) == losses(plain)
    assert hpz["resumed"]["losses"] == losses(hpz)[SAVED_AT:]
    # Weights are cut at stage 3; the validation after the last update is what shows them.
    assert hpz["resumed"]["validation"] == hpz["whole"]["validation"]
    gathered = {name: record["whole"]["traffic"][-1] for name, record in seen.items()}
    across = "dp.all_gather_into_tensor"
    assert gathered["stage 3, hpZ"][across]["wire_bytes"] * 2 == gathered["stage 3"][across]["wire_bytes"]
    assert gathered["stage 3, hpZ"]["other.all_gather_into_tensor"]["calls"] == gathered["stage 3"][across]["calls"] / 2
    config = resolve(dataset, RunFolder("unused"), world_size=4, **BASE, **HPZ["stage 3, hpZ"])
    assert hpz["whole"]["secondary_bytes"] == count_secondary_partitions(plan_rank(config, make_cluster()))
