"""kill -9 of one rank in the middle of a training: seen at once, named, and the training ends as an undisturbed one."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from neox_train.config.layout import DatasetFolder, RunFolder
from tests.cluster.trainings import (
    STEPS,
    attempts,
    final_loss,
    gone,
    rank_processes,
    reached,
    start_training,
    steps_logged,
)
from tests.several_gpus.conftest import ON_GPUS, require_ranks

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_killed_rank_is_named_and_the_training_ends_as_ever(
    dataset: DatasetFolder, tmp_path: Path, ranks: int
) -> None:
    require_ranks(ranks)
    keys = {"deterministic": True, "precision": "bfloat16", "zero_optimization": {"stage": 1}, "train_batch_size": 16}
    keys |= {"train_micro_batch_size_per_gpu": 16 // ranks}
    facts = {"processes_per_node": ranks, "device": "cuda" if ON_GPUS else "cpu"}
    undisturbed, run = (RunFolder(tmp_path / name) for name in ("undisturbed", "killed"))
    code, text = start_training(undisturbed, dataset, facts, **keys).wait()
    assert code == 0, text

    training = start_training(run, dataset, facts, **keys)
    training.wait_until(reached(run, 6))
    victims = rank_processes(run)
    os.kill(victims[ranks - 1], signal.SIGKILL)
    killed_at = time.monotonic()
    training.wait_until(lambda: gone(victims[0]))
    print(f"the other ranks ended {time.monotonic() - killed_at:.1f} s after the kill")
    code, text = training.wait()
    assert code == 0, text
    assert [attempt["state"] for attempt in attempts(run)] == ["failed", "finished"]
    assert f"rank {ranks - 1}" in attempts(run)[0]["reason"]
    assert steps_logged(run) == list(range(1, STEPS + 1))
    assert final_loss(run) == final_loss(undisturbed)
