"""The same files at another number of ranks or another ZeRO stage: the same masters and moments, or a refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from neox_train.checkpoint.weights import read_model_weights
from tests.checkpoint.conftest import Trainings
from tests.checkpoint.launch import launch
from tests.checkpoint.variants import EIGHT_BIT, EXACT

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(600)]

RESIZED = ["fp32-zero0", "fp32-zero1", "fp32-zero2-round-robin", "bf16-zero0", "bf16-zero1", "bf16-zero2", "fp32-zero3"]
MOVED = [
    ("fp32-zero0", "fp32-zero1"),
    ("fp32-zero1", "fp32-zero2-round-robin"),
    ("fp32-zero2-round-robin", "fp32-zero0"),
    ("bf16-zero0", "bf16-zero1"),
    ("bf16-zero1", "bf16-zero2"),
    ("fp32-zero1", "fp32-zero3"),
]
Answers = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def on_one(trainings: Trainings) -> Answers:
    """Each checkpoint of two ranks restored on one, trained on, and saved again as it was restored."""
    tasks = {
        name: {
            "overrides": {**EXACT, **EIGHT_BIT}[name],
            "restore": str(trainings.checkpoint(name)),
            "save_restored": True,
            "root": str(trainings.root / "on-one" / name),
        }
        for name in [*RESIZED[:-1], *[name for name in EIGHT_BIT if "zero3" not in name], RESIZED[-1]]
    }
    seen = launch(trainings.root, "on-one", list(tasks.values()), ranks=1)
    return {name: [rank[index] for rank in seen] for index, name in enumerate(tasks)}


@pytest.fixture(scope="module")
def back_on_two(trainings: Trainings, on_one: Answers) -> Answers:
    """The checkpoints of one rank restored on two and trained on; checkpoints moved to another stage; a refusal."""
    tasks: dict[str, dict[str, Any]] = {}
    for name in RESIZED[:-1]:
        folder = trainings.root / "on-one" / name / "step_00000003"
        tasks[name] = {"overrides": EXACT[name], "restore": str(folder), "steps": 1}
    tasks["other model"] = {
        "overrides": {**EXACT["fp32-zero1"], "hidden_size": 32},
        "restore": str(trainings.checkpoint("fp32-zero1")),
    }
    for source, target in MOVED:
        tasks[f"{source} > {target}"] = {"overrides": EXACT[target], "restore": str(trainings.checkpoint(source))}
    name = RESIZED[-1]
    folder = trainings.root / "on-one" / name / "step_00000003"
    tasks[name] = {"overrides": EXACT[name], "restore": str(folder), "steps": 1}
    seen = launch(trainings.root, "back-on-two", list(tasks.values()), ranks=2)
    return {name: [rank[index] for rank in seen] for index, name in enumerate(tasks)}


@pytest.mark.parametrize("variant", [name for name in RESIZED if "round-robin" not in name])
def test_two_ranks_to_one_and_back_keep_masters_and_moments(
    trainings: Trainings, on_one: Answers, back_on_two: Answers, variant: str
) -> None:
    saved = trainings.saved[variant][0]["final_whole"]
    assert len(saved) == 3 * 28
    assert on_one[variant][0]["restored_whole"] == saved
    assert [rank["restored_whole"] for rank in back_on_two[variant]] == [saved, saved]


@pytest.mark.parametrize("variant", RESIZED)
def test_there_and_back_the_partitions_are_bit_equal_and_train_on(
    trainings: Trainings, back_on_two: Answers, variant: str
) -> None:
    for rank in (0, 1):
        assert back_on_two[variant][rank]["restored"] == trainings.saved[variant][rank]["final"]
        assert back_on_two[variant][rank]["losses"] == trainings.unbroken[variant][rank]["losses"][3:4]


@pytest.mark.parametrize(("source", "target"), MOVED)
def test_another_zero_stage_gets_the_same_masters_and_moments(
    trainings: Trainings, back_on_two: Answers, source: str, target: str
) -> None:
    saved, moved = trainings.saved[source][0], back_on_two[f"{source} > {target}"][0]
    if "zero3" not in target:
        assert moved["restored"].items() >= {k: v for k, v in saved["final"].items() if k.startswith("weights")}.items()
    if saved["final_whole"] and moved["restored_whole"]:
        assert moved["restored_whole"] == saved["final_whole"]


def test_another_model_is_refused_on_every_rank_in_a_sentence(back_on_two: Answers) -> None:
    sentences = {(rank["error"], rank["sentence"]) for rank in back_on_two["other model"]}
    assert len(sentences) == 1
    kind, sentence = sentences.pop()
    assert kind == "CheckpointError"
    assert "holds another model" in sentence


def test_8_bit_states_cannot_be_resized(on_one: Answers) -> None:
    refused = on_one["8bit-zero1"][0]
    assert refused["error"] == "CheckpointError"
    for part in ("AdamW8bit", "8 bits", "2 data-parallel rank", "resized to 1"):
        assert part in refused["sentence"]


def test_8_bit_states_that_every_rank_holds_whole_need_no_resizing(trainings: Trainings, on_one: Answers) -> None:
    assert on_one["8bit-zero0"][0]["restored_whole"] == trainings.saved["8bit-zero0"][0]["final_whole"]


def test_a_save_is_the_same_whoever_writes_it(trainings: Trainings, on_one: Answers) -> None:
    for name in RESIZED:
        again: Path = trainings.root / "on-one" / name / "step_00000003"
        first, second = read_model_weights(trainings.checkpoint(name)), read_model_weights(again)
        assert all(first[key].equal(second[key]) for key in first)
