"""Every compression on two real processes: what it costs in loss, what it sends, and what survives a checkpoint."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from neox_train.checkpoint.own_state import SavedOwnState
from neox_train.checkpoint.reader import restore_checkpoint
from neox_train.checkpoint.tensor_reader import open_tensors
from neox_train.config.architecture import Architecture
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.errors import CheckpointError
from neox_train.memory.compression import count_compression
from neox_train.memory.plan import plan_rank
from neox_train.training.compression.power_sgd import PowerSGD
from neox_train.training.distributed import RankContext
from neox_train.training.engine import build_engine
from tests.gloo import run_ranks
from tests.memory.plans import make_cluster
from tests.training.synthetic import resolve

pytestmark = pytest.mark.distributed

STEPS, SAVED_AT, POISONED_AT = 40, 20, 12
START, EVERY = 4, 8
MODEL: dict[str, Any] = {"train_batch_size": 8, "train_micro_batch_size_per_gpu": None, "eval_iters": 4}
POWER: dict[str, Any] = {**MODEL, "gradient_compression": "powersgd", "powersgd_start_step": START, "powersgd_rank": 8}
LOCAL: dict[str, Any] = {**MODEL, "gradient_compression": "local_update", "local_update_steps": EVERY}
METHODS: dict[str, dict[str, Any]] = {
    "none": MODEL,
    "bf16": {**MODEL, "gradient_compression": "bf16"},
    "fp16": {**MODEL, "gradient_compression": "fp16"},
    "powersgd": {**POWER, "poison_at": POISONED_AT},
    "powersgd in bf16": {**POWER, "precision": "bfloat16"},
    "local_update": {**LOCAL, "poison_at": POISONED_AT},
    "local_update in bf16": {**LOCAL, "precision": "bfloat16", "communication_data_type": "bf16"},
}
LOSS_MARGIN = {"bf16": 0.01, "fp16": 0.01, "powersgd": 0.6, "local_update": 0.2}
"""How far above the uncompressed validation loss a short training may end (it falls by 3.0)."""


@pytest.fixture(scope="module")
def trained(dataset: DatasetFolder, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What every method did, whole and resumed."""
    folder = tmp_path_factory.mktemp("compression")
    job = {
        "dataset": str(dataset.path),
        "results": str(folder),
        "steps": STEPS,
        "save_at": SAVED_AT,
        "methods": METHODS,
    }
    (folder / "job.json").write_text(json.dumps(job))
    run_ranks("tests.training.compression.worker", folder / "job.json", 2)
    seen = {name: json.loads((folder / f"{name}.json").read_text()) for name in METHODS}
    return {
        name: {**record, "checkpoint": folder / name / "checkpoints" / f"step_{SAVED_AT:08d}"}
        for name, record in seen.items()
    }


def gradient_bytes(step: dict[str, Any]) -> int:
    """Bytes this rank sent for gradients or weights in a step; all else is a few numbers."""
    return sum(one["wire_bytes"] for one in step.values())


@pytest.mark.parametrize("name", [name for name in METHODS if name != "none"])
def test_it_learns_nearly_what_whole_gradients_learn(trained: dict[str, dict[str, Any]], name: str) -> None:
    seen, reference = trained[name]["whole"], trained["none"]["whole"]
    assert reference["losses"][0] - reference["validation"] > 2.5
    assert seen["validation"] < reference["validation"] + LOSS_MARGIN[name.split()[0]]
    assert seen["replicas_equal"]


def test_the_narrow_formats_send_half(trained: dict[str, dict[str, Any]]) -> None:
    whole = trained["none"]["whole"]
    for name, dtype in (("bf16", "bfloat16"), ("fp16", "float16")):
        seen = trained[name]["whole"]
        assert dtype in seen["traffic"][-1]["dp.all_reduce"]["dtypes"]
        expected = gradient_bytes(whole["traffic"][-1]) - 2 * whole["parameters"]
        assert gradient_bytes(seen["traffic"][-1]) == pytest.approx(expected, abs=64)


def test_powersgd_sends_whole_gradients_first_and_factors_then(trained: dict[str, dict[str, Any]]) -> None:
    whole = gradient_bytes(trained["none"]["whole"]["traffic"][-1])
    steps = [gradient_bytes(step) for step in trained["powersgd"]["whole"]["traffic"]]
    assert all(sent == pytest.approx(whole, abs=64) for sent in steps[:START])
    compressed = [sent for step, sent in enumerate(steps) if step >= START and step != POISONED_AT]
    assert max(compressed) < 0.2 * whole
    assert steps[POISONED_AT] < 64


def test_local_updates_send_between_their_steps_only(trained: dict[str, dict[str, Any]]) -> None:
    whole = gradient_bytes(trained["none"]["whole"]["traffic"][-1])
    for name, share in (("local_update", 1.0), ("local_update in bf16", 0.5)):
        steps = [gradient_bytes(step) for step in trained[name]["whole"]["traffic"]]
        for index, sent in enumerate(steps):
            expected = whole * share if (index + 1) % EVERY == 0 else 0
            assert sent == pytest.approx(expected, abs=64)


@pytest.mark.parametrize("name", METHODS)
def test_a_resumed_training_ends_bit_for_bit(trained: dict[str, dict[str, Any]], name: str) -> None:
    whole, resumed = trained[name]["whole"], trained[name]["resumed"]
    assert resumed["losses"] == whole["losses"][SAVED_AT:]
    assert resumed["weights"] == whole["weights"]
    assert resumed["validation"] == whole["validation"]


@pytest.mark.parametrize("name", ["powersgd", "local_update"])
def test_a_gradient_that_is_not_finite_on_one_rank_skips_the_step_on_all(
    trained: dict[str, dict[str, Any]], name: str
) -> None:
    assert trained[name]["whole"]["applied"] == [step != POISONED_AT for step in range(STEPS)]


def test_the_estimate_counts_what_powersgd_keeps(trained: dict[str, dict[str, Any]]) -> None:
    changes = {key: value for key, value in METHODS["powersgd"].items() if key != "poison_at"}
    config = resolve(DatasetFolder("unused"), RunFolder("unused"), world_size=2, **changes)
    counter_bytes = 8
    kept = count_compression(plan_rank(config, make_cluster()))
    assert trained["powersgd"]["whole"]["own_bytes"] - counter_bytes == kept


def test_another_number_of_ranks_goes_on_with_the_mean_of_the_residuals(
    trained: dict[str, dict[str, Any]], alone: RankContext
) -> None:
    power = PowerSGD(rank=8, start_step=START, device=alone.device, group=torch.distributed.group.WORLD)
    with open_tensors(trained["powersgd"]["checkpoint"]) as reader:
        saved = SavedOwnState(reader, 2)
        power.restore(saved, 0)
        first, second = (saved.read(rank)["residual"] for rank in range(2))
    assert not torch.equal(first, second)
    with power.capture() as tensors:
        assert torch.equal(tensors["residual"], (first + second) / 2)
        assert int(tensors["reductions"]) == SAVED_AT - 1, "the poisoned step reduced nothing"


def test_another_number_of_ranks_cannot_go_on_with_local_updates(
    trained: dict[str, dict[str, Any]], alone: RankContext
) -> None:
    changes = {key: value for key, value in METHODS["local_update"].items() if key != "poison_at"}
    config = resolve(DatasetFolder("unused"), RunFolder("unused"), **changes)
    engine, model = build_engine(config, Architecture.from_config(config), alone)
    with pytest.raises(CheckpointError, match=r"holds 2 replicas .* this run has 1; resume with 2 processes"):
        restore_checkpoint(trained["local_update"]["checkpoint"], engine=engine, model=model, config=config)
