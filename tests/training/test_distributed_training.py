"""Two real processes over gloo: the same curve as one, exact resume after SIGKILL, and no rank outlives another."""

import time
from pathlib import Path
from typing import Any

import pytest

from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.errors import TrainingError
from neox_train.files import read_json
from neox_train.monitoring.metrics import read_metrics
from neox_train.training.distributed import RankContext
from neox_train.training.entry import train_rank
from tests.training.ranks import Ranks, start_ranks
from tests.training.synthetic import write_run

pytestmark = pytest.mark.distributed

SETTINGS: dict[str, Any] = {
    "train_iters": 60,
    "lr_decay_iters": 60,
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "zero_optimization": {"stage": 1},
    "eval_iters": 4,
}


def start(folder: Path, dataset: DatasetFolder) -> tuple[RunFolder, Ranks]:
    run = write_run(folder, dataset, world_size=2, **SETTINGS)
    return run, start_ranks(run, 2)


def curve(run: RunFolder) -> list[tuple[str, int, float]]:
    return [(record["kind"], record["step"], record["loss"]) for record in read_metrics(run.metrics)]


def state_hashes(run: RunFolder) -> dict[str, str]:
    """SHA-256 of every rank's weights, optimizer states and random streams at the last step."""
    files = read_json(run.checkpoints / "step_00000060" / "manifest.json")["files"]
    return {name: record["sha256"] for name, record in files.items() if name.startswith("rank_")}


def saved(run: RunFolder, step: int) -> bool:
    return (run.checkpoints / f"step_{step:08d}" / "manifest.json").exists()


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory, dataset: DatasetFolder) -> RunFolder:
    run, ranks = start(tmp_path_factory.mktemp("ranks") / "whole", dataset)
    results = ranks.wait()
    assert [code for code, _ in results] == [0, 0], results
    assert all("outcome: finished" in text for _, text in results)
    return run


def test_two_ranks_learn_what_one_learns(
    unbroken: RunFolder, tmp_path: Path, dataset: DatasetFolder, alone: RankContext
) -> None:
    one = write_run(tmp_path / "one", dataset, **{**SETTINGS, "train_micro_batch_size_per_gpu": 4})
    train_rank(str(one.path))
    for two, single in zip(curve(unbroken), curve(one), strict=True):
        assert two[:2] == single[:2]
        # Sums over ranks round differently, and training amplifies the difference slowly.
        assert two[2] == pytest.approx(single[2], abs=1e-5 if two[1] <= 20 else 1e-3)
    assert curve(unbroken)[-1][2] < curve(unbroken)[0][2] - 1.0


def test_zero_3_learns_what_zero_1_learns_and_resumes_exactly(
    unbroken: RunFolder, tmp_path: Path, dataset: DatasetFolder
) -> None:
    settings = {**SETTINGS, "zero_optimization": {"stage": 3}, "train_iters": 20}
    run = write_run(tmp_path / "zero3", dataset, world_size=2, **settings)
    ranks = start_ranks(run, 2)
    ranks.wait_until(lambda: saved(run, 10))
    ranks.kill()
    results = start_ranks(run, 2).wait()
    assert [code for code, _ in results] == [0, 0], results
    compared = [(own, other) for own, other in zip(curve(run), curve(unbroken), strict=False) if own[1] <= 10]
    assert len(compared) >= 10
    for own, other in compared:
        assert own[:2] == other[:2]
        assert own[2] == pytest.approx(other[2], abs=1e-5)

    whole = write_run(tmp_path / "zero3-whole", dataset, world_size=2, **settings)
    assert [code for code, _ in start_ranks(whole, 2).wait()] == [0, 0]
    assert curve(run) == curve(whole)


def test_killed_after_the_second_checkpoint_the_same_command_ends_bit_for_bit(
    unbroken: RunFolder, tmp_path: Path, dataset: DatasetFolder
) -> None:
    run, ranks = start(tmp_path / "killed", dataset)
    ranks.wait_until(lambda: saved(run, 20))
    ranks.kill()
    assert not run.finished.exists()
    kept = {path.name: path.stat().st_ino for path in run.checkpoints.glob("step_*")}

    results = start_ranks(run, 2).wait()

    assert [code for code, _ in results] == [0, 0], results
    assert {name: (run.checkpoints / name).stat().st_ino for name in kept} == kept
    assert curve(run) == curve(unbroken)
    assert state_hashes(run) == state_hashes(unbroken)


def test_a_dead_rank_ends_the_other_and_the_run_continues(
    unbroken: RunFolder, tmp_path: Path, dataset: DatasetFolder
) -> None:
    run, ranks = start(tmp_path / "one-dead", dataset)
    ranks.wait_until(lambda: saved(run, 10))
    ranks.kill(1)
    began = time.monotonic()
    (code, text), _ = ranks.wait(timeout_seconds=30)
    assert time.monotonic() - began < 30
    assert code == TrainingError.exit_code
    assert "error: rank 0: another rank is gone" in text and "Traceback" not in text

    ranks = start_ranks(run, 2)
    ranks.wait_until(lambda: saved(run, 30))
    ranks.ask_to_stop(1)
    stopped = ranks.wait()
    assert [code for code, _ in stopped] == [0, 0], stopped
    assert all("outcome: stopped" in text for _, text in stopped)
    assert not run.finished.exists()

    results = start_ranks(run, 2).wait()
    assert [code for code, _ in results] == [0, 0], results
    assert curve(run) == curve(unbroken)
    assert state_hashes(run) == state_hashes(unbroken)
