"""Every compression on two real processes: what it costs in loss, what it sends, and what survives a checkpoint."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from neox_train.checkpoint.own_state import SavedOwnState
from neox_train.checkpoint.reader import restore_checkpoint
from neox_train.checkpoint.space import checkpoint_size_bytes
from neox_train.checkpoint.tensor_reader import open_tensors
from neox_train.config.architecture import Architecture
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.config.schema import NeoxConfig
from neox_train.errors import CheckpointError
from neox_train.memory.compression import count_compression
from neox_train.memory.plan import plan_rank
from neox_train.training.compression.lamb_moments import REFRESH_STEPS
from neox_train.training.compression.power_sgd import PowerSGD
from neox_train.training.distributed import RankContext
from neox_train.training.engine import build_engine
from tests.gloo import run_ranks
from tests.memory.plans import make_cluster
from tests.training.synthetic import VOCAB_SIZE, resolve

pytestmark = pytest.mark.distributed

STEPS, SAVED_AT, POISONED_AT = 40, 20, 12
START, EVERY = 4, 8
WHOLE_STEPS = 22
"""With whole gradients before local updates begin: a checkpoint falls into them, and the poisoned step."""
MODEL: dict[str, Any] = {"train_batch_size": 8, "train_micro_batch_size_per_gpu": None, "eval_iters": 4}
POWER: dict[str, Any] = {**MODEL, "gradient_compression": "powersgd", "powersgd_start_step": START, "powersgd_rank": 8}
LOCAL: dict[str, Any] = {
    **MODEL,
    "gradient_compression": "local_update",
    "local_update_steps": EVERY,
    "local_update_start_step": 0,
    "local_update_momentum": 0.9,
}
ONE_BIT: dict[str, Any] = {**MODEL, "train_iters": STEPS, "gradient_clipping": 0.0}
WARMUP, WARMUP_PAST_SAVE = 8, 24
"""A fifth of the steps, by default; and a warm-up that a checkpoint falls into."""
VOCABULARY_ROWS, ROW_BYTES = 1024, 64 * 4
WIDE: dict[str, Any] = {**MODEL, "make_vocab_size_divisible_by": VOCABULARY_ROWS}
METHODS: dict[str, dict[str, Any]] = {
    "none": MODEL,
    "bf16": {**MODEL, "gradient_compression": "bf16"},
    "fp16": {**MODEL, "gradient_compression": "fp16"},
    "powersgd": {**POWER, "poison_at": POISONED_AT},
    "powersgd in bf16": {**POWER, "precision": "bfloat16"},
    "local_update": {**LOCAL, "poison_at": POISONED_AT},
    "local_update, late": {**LOCAL, "local_update_start_step": WHOLE_STEPS, "poison_at": POISONED_AT},
    "onebit_adam": {**ONE_BIT, "gradient_compression": "onebit_adam", "poison_at": POISONED_AT},
    "onebit_adam, long memory": {
        **ONE_BIT,
        "optimizer": {"type": "OneBitAdam", "params": {"lr": 0.001, "betas": [0.9, 0.999]}},
    },
    "onebit_adam in bf16": {
        **ONE_BIT,
        "optimizer": {
            "type": "OneBitAdam",
            "params": {"lr": 0.001, "betas": [0.9, 0.95], "freeze_step": WARMUP_PAST_SAVE},
        },
        "precision": "bfloat16",
    },
    "zero_one_adam": {**ONE_BIT, "gradient_compression": "zero_one_adam", "poison_at": POISONED_AT},
    "onebit_lamb": {**ONE_BIT, "gradient_compression": "onebit_lamb", "poison_at": POISONED_AT, "lr": 0.03},
    "unclipped": {**ONE_BIT},
    "unclipped, long memory": {
        **ONE_BIT,
        "optimizer": {"type": "Adam", "params": {"lr": 0.001, "betas": [0.9, 0.999], "eps": 1e-8}},
    },
    "wide": WIDE,
    "wide, sparse": {**WIDE, "sparse_gradients": True},
    "sparse auto": {**MODEL, "sparse_gradients": "auto", "make_vocab_size_divisible_by": 1},
    "local_update in bf16": {**LOCAL, "precision": "bfloat16", "communication_data_type": "bf16"},
}
ADAM = {"onebit_adam": "unclipped", "onebit_adam, long memory": "unclipped, long memory"}
"""Adam with the same settings."""
LOSS_MARGIN = {
    "bf16": 0.01,
    "fp16": 0.01,
    "powersgd": 0.6,
    "local_update": 0.2,
    "local_update, late": 0.1,
    "onebit_adam": 0.1,
    "onebit_adam, long memory": 0.2,
    "zero_one_adam": 0.1,
    "onebit_lamb": 0.2,
    "unclipped": 0.1,
    "unclipped, long memory": 0.2,
    "wide": 0.0001,
    "wide, sparse": 0.0001,
    "sparse auto": 0.0001,
}
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
    assert seen["validation"] < reference["validation"] + LOSS_MARGIN[name.split(" in ")[0]]
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


def test_local_updates_may_begin_after_steps_with_whole_gradients(trained: dict[str, dict[str, Any]]) -> None:
    reference, seen = trained["none"]["whole"], trained["local_update, late"]["whole"]
    assert seen["losses"][: POISONED_AT + 1] == reference["losses"][: POISONED_AT + 1]
    whole = gradient_bytes(reference["traffic"][-1])
    for index, step in enumerate(seen["traffic"]):
        is_whole = index < WHOLE_STEPS or (index + 1 - WHOLE_STEPS) % EVERY == 0
        expected = whole if is_whole and index != POISONED_AT else 0
        assert gradient_bytes(step) == pytest.approx(expected, abs=64)


def test_only_touched_rows_travel_and_the_update_is_that_of_whole_gradients(
    trained: dict[str, dict[str, Any]],
) -> None:
    dense, sparse = trained["wide"]["whole"], trained["wide, sparse"]["whole"]
    assert (sparse["losses"], sparse["weights"]) == (dense["losses"], dense["weights"])
    untouched = VOCABULARY_ROWS - VOCAB_SIZE
    for one, other in zip(dense["traffic"], sparse["traffic"], strict=True):
        saved = gradient_bytes(one) - gradient_bytes(other) + VOCABULARY_ROWS
        assert saved >= untouched * ROW_BYTES
        assert saved % ROW_BYTES == 0


def test_auto_sends_the_whole_matrix_where_most_rows_are_touched(trained: dict[str, dict[str, Any]]) -> None:
    seen = trained["sparse auto"]["whole"]
    sent = [gradient_bytes(step) for step in seen["traffic"]]
    dense = 4 * seen["parameters"] + VOCAB_SIZE
    assert sum(one == pytest.approx(dense, abs=32) for one in sent) > STEPS // 2
    assert max(sent) <= dense + 32


@pytest.mark.parametrize("name", ["onebit_adam", "onebit_adam in bf16", "zero_one_adam", "onebit_lamb"])
def test_one_bit_optimizers_send_whole_gradients_first_and_signs_then(
    trained: dict[str, dict[str, Any]], name: str
) -> None:
    seen = trained[name]["whole"]
    steps = [gradient_bytes(step) for step in seen["traffic"]]
    half = 2 if "bf16" in name else 1
    warmup = WARMUP_PAST_SAVE if "bf16" in name else WARMUP
    whole = 4 * seen["parameters"] / half
    assert all(sent == pytest.approx(whole, abs=64) for sent in steps[:warmup])
    # 0/1 Adam leaves its warm-up when the step count is above it, one step later.
    compressed = [sent for step, sent in enumerate(steps) if step > warmup and step != POISONED_AT]
    refreshed = [sent for sent in compressed if sent > 0.04 * 4 * seen["parameters"]]
    # 1-bit LAMB's second moments besides, in 16 bits, in one step of ten.
    assert len(refreshed) == ((STEPS - WARMUP) // REFRESH_STEPS if name == "onebit_lamb" else 0)
    assert max(compressed) < (0.04 + 0.5 * bool(refreshed)) * 4 * seen["parameters"]


def test_1_bit_adam_takes_adam_s_steps_in_its_warm_up(trained: dict[str, dict[str, Any]]) -> None:
    # DeepSpeed's optimizer leaves out the correction of moments for their start at 0.
    for name in ("onebit_adam", "onebit_adam, long memory"):
        seen, adam = trained[name]["whole"]["losses"], trained[ADAM[name]]["whole"]["losses"]
        assert seen[:WARMUP] == pytest.approx(adam[:WARMUP], abs=2e-3)


@pytest.mark.parametrize("name", ["onebit_adam", "zero_one_adam", "onebit_lamb"])
def test_rows_of_tokens_that_never_came_up_stay_small_under_signs(
    trained: dict[str, dict[str, Any]], name: str
) -> None:
    # Rows that pad the vocabulary have a second moment of 0, and a sign is never 0.
    assert trained[name]["whole"]["largest_weight"] < 10 * trained["none"]["whole"]["largest_weight"]


@pytest.mark.parametrize("name", METHODS)
def test_a_resumed_training_ends_bit_for_bit(trained: dict[str, dict[str, Any]], name: str) -> None:
    whole, resumed = trained[name]["whole"], trained[name]["resumed"]
    assert resumed["losses"] == whole["losses"][SAVED_AT:]
    assert resumed["weights"] == whole["weights"]
    assert resumed["validation"] == whole["validation"]


@pytest.mark.parametrize("name", ["powersgd", "local_update", "onebit_adam", "zero_one_adam", "onebit_lamb"])
def test_a_gradient_that_is_not_finite_on_one_rank_skips_the_step_on_all(
    trained: dict[str, dict[str, Any]], name: str
) -> None:
    assert trained[name]["whole"]["applied"] == [step != POISONED_AT for step in range(STEPS)]


def test_the_estimate_counts_what_powersgd_keeps(trained: dict[str, dict[str, Any]]) -> None:
    changes = {key: value for key, value in METHODS["powersgd"].items() if key != "poison_at"}
    counter_bytes = 8
    kept = count_compression(plan_rank(resolve_alike(changes), make_cluster()))
    assert trained["powersgd"]["whole"]["own_bytes"] - counter_bytes == kept


@pytest.mark.parametrize("name", ["onebit_adam", "zero_one_adam", "onebit_lamb"])
def test_the_estimate_counts_what_one_bit_optimizers_keep(trained: dict[str, dict[str, Any]], name: str) -> None:
    changes = {key: value for key, value in METHODS[name].items() if key not in ("poison_at", "lr")}
    kept = count_compression(plan_rank(resolve_alike(changes), make_cluster()))
    seen = trained[name]["whole"]
    phase, weights = 6 * 8, 4 * seen["parameters"]
    # 1-bit LAMB's momenta are saved as states, and once more in their buffer.
    twice = weights if name == "onebit_lamb" else 0
    assert seen["own_bytes"] - phase - 3 * weights - twice == kept


@pytest.mark.parametrize("name", ["onebit_adam", "zero_one_adam", "onebit_lamb"])
def test_the_check_of_free_disk_counts_what_one_bit_optimizers_save(
    trained: dict[str, dict[str, Any]], name: str
) -> None:
    changes = {key: value for key, value in METHODS[name].items() if key not in ("poison_at", "lr")}
    written = sum(file.stat().st_size for file in trained[name]["checkpoint"].iterdir())
    assert checkpoint_size_bytes(resolve_alike(changes)) == pytest.approx(written, rel=0.05)


def resolve_alike(changes: dict[str, Any]) -> NeoxConfig:
    """The configuration that the ranks trained with."""
    return resolve(DatasetFolder("unused"), RunFolder("unused"), world_size=2, **changes)


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


@pytest.mark.parametrize("name", ["local_update", "onebit_adam", "onebit_lamb"])
def test_another_number_of_ranks_cannot_go_on_with_what_each_keeps_for_itself(
    trained: dict[str, dict[str, Any]], alone: RankContext, name: str
) -> None:
    changes = {key: value for key, value in METHODS[name].items() if key not in ("poison_at", "lr")}
    config = resolve(DatasetFolder("unused"), RunFolder("unused"), **changes)
    engine, model = build_engine(config, Architecture.from_config(config), alone)
    with pytest.raises(CheckpointError, match=r"holds .*2 .* this run has 1; resume with 2 processes"):
        restore_checkpoint(trained[name]["checkpoint"], engine=engine, model=model, config=config)
