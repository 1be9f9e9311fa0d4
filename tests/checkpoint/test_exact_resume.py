"""Three steps, a save, new processes, three more: bit for bit the unbroken six, on two ranks."""

from __future__ import annotations

import pytest

from neox_train.checkpoint.manifest import read_manifest, verify_checkpoint
from neox_train.checkpoint.weights import read_model_weights
from tests.checkpoint.conftest import Trainings
from tests.checkpoint.digest import SAMPLES, VOCAB_SIZE, digest
from tests.checkpoint.variants import EIGHT_BIT, EXACT, OPTIMIZER

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(600)]

RANKS = (0, 1)
ALL = [*EXACT, *EIGHT_BIT]


@pytest.mark.parametrize("variant", EXACT)
@pytest.mark.parametrize("rank", RANKS)
def test_losses_weights_and_optimizer_states_are_bit_equal(trainings: Trainings, variant: str, rank: int) -> None:
    unbroken, resumed = trainings.unbroken[variant][rank], trainings.resumed[variant][rank]
    assert unbroken["losses"] == trainings.saved[variant][rank]["losses"] + resumed["losses"]
    assert len(set(unbroken["losses"])) == 6
    assert unbroken["final"] == resumed["final"]


@pytest.mark.parametrize("variant", EXACT)
@pytest.mark.parametrize("rank", RANKS)
def test_the_restored_state_is_the_saved_one(trainings: Trainings, variant: str, rank: int) -> None:
    saved, resumed = trainings.saved[variant][rank], trainings.resumed[variant][rank]
    assert saved["final"] == resumed["restored"]
    assert any(key.startswith("exp_avg_sq") for key in resumed["restored"])


@pytest.mark.parametrize("variant", ALL)
@pytest.mark.parametrize("rank", RANKS)
def test_random_streams_and_counters_go_on(trainings: Trainings, variant: str, rank: int) -> None:
    unbroken, resumed = trainings.unbroken[variant][rank], trainings.resumed[variant][rank]
    assert unbroken["draws"][3:] == resumed["draws"]
    assert unbroken["counters"] == resumed["counters"]
    assert trainings.unbroken[variant][0]["draws"] != trainings.unbroken[variant][1]["draws"]


@pytest.mark.parametrize("variant", EIGHT_BIT)
@pytest.mark.parametrize("rank", RANKS)
def test_8_bit_states_resume_with_the_same_losses_and_states(trainings: Trainings, variant: str, rank: int) -> None:
    unbroken, resumed = trainings.unbroken[variant][rank], trainings.resumed[variant][rank]
    assert unbroken["losses"][3:] == resumed["losses"]
    assert unbroken["final"].keys() == resumed["final"].keys()
    # An 8-bit optimizer moves the padding rows, which no token reads; a restore sets them to zero.
    differing = {key.split()[0] for key, value in unbroken["final"].items() if resumed["final"][key] != value}
    assert differing <= {"weights", "master"}
    assert unbroken["final_whole"] == resumed["final_whole"]


@pytest.mark.parametrize("variant", EXACT)
def test_each_variant_is_the_kind_of_optimizer_it_stands_for(trainings: Trainings, variant: str) -> None:
    assert trainings.resumed[variant][0]["optimizer"] == OPTIMIZER[variant]
    assert trainings.resumed[variant][0]["padding_is_zero"]


@pytest.mark.parametrize("variant", ALL)
def test_a_checkpoint_is_complete_and_gives_whole_weights_without_an_engine(trainings: Trainings, variant: str) -> None:
    folder = trainings.checkpoint(variant)
    assert verify_checkpoint(folder) == []
    weights = read_model_weights(folder)
    assert weights["output.weight"].shape == (VOCAB_SIZE, 64)
    whole = trainings.saved[variant][0]["final_whole"]
    assert whole or "round-robin" in variant
    for name, weight in weights.items():
        assert whole.get(f"master {name}", digest(weight)) == digest(weight)


def test_the_manifest_and_the_trainers_state_say_what_was_saved(trainings: Trainings) -> None:
    manifest = read_manifest(trainings.checkpoint("bf16-zero1"))
    assert (manifest.step, manifest.world.size, manifest.world.dp, manifest.final) == (3, 2, 2, False)
    assert manifest.parameters["layers.0.mlp.linear2.weight"].shard_dim == 1
    assert manifest.digests["dataset"] == "d" * 64
    state = trainings.resumed["bf16-zero1"][1]["trainer"]
    assert (state["step"], state["consumed_samples"]) == (3, 3 * SAMPLES)
    assert state["last_validation_loss"] == 0.1 + 0.2
