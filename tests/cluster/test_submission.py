"""One training killed in every way that a local submit can meet: its loss equals an undisturbed one bit for bit."""

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from neox_train.cluster.overview import describe_run
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
from tests.data.pairs import write_wrong_labels
from tests.training.synthetic import write_dataset

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> DatasetFolder:
    return write_dataset(
        tmp_path_factory.mktemp("dataset") / "synthetic", train_tokens=200_000, validation_tokens=10_000
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, dataset: DatasetFolder) -> RunFolder:
    run = RunFolder(tmp_path_factory.mktemp("undisturbed") / "run")
    code, text = start_training(run, dataset).wait()
    assert code == 0, text
    assert steps_logged(run) == list(range(1, STEPS + 1))
    return run


def test_killed_rank_killed_launcher_second_launcher_and_a_stop(
    tmp_path: Path, dataset: DatasetFolder, undisturbed: RunFolder
) -> None:
    run = RunFolder(tmp_path / "run")
    first = start_training(run, dataset)
    first.wait_until(reached(run, 6))

    # One rank is killed: the others end with it, and the same launcher starts them again.
    victims = rank_processes(run)
    os.kill(victims[1], signal.SIGKILL)
    killed_at = time.monotonic()
    first.wait_until(lambda: gone(victims[0]))
    assert time.monotonic() - killed_at < 30

    # A second launcher follows the first, and takes over when that one is killed with its ranks' work under way.
    second = start_training(run, dataset)
    first.wait_until(reached(run, 11, attempt=2))
    assert second.process.poll() is None
    orphans = rank_processes(run)
    first.kill()
    second.wait_until(lambda: all(gone(pid) for pid in orphans.values()))
    second.wait_until(reached(run, 16, attempt=3))

    # Asked to stop, the ranks save at a step boundary: not a step is lost.
    second.process.send_signal(signal.SIGTERM)
    code, text = second.wait()
    assert code == 128 + signal.SIGTERM, text
    assert "follow" in text
    stopped_at = steps_logged(run)[-1]
    (last,) = [line for line in text.splitlines() if line.startswith("stopped: ")]
    assert f"after step {stopped_at} of {STEPS}: saved and stopped by SIGTERM" in last
    assert f"the same command continues from step_{stopped_at:08}" in last
    assert describe_run(run).state == "stopped"
    assert (run.checkpoints / f"step_{stopped_at:08}" / "manifest.json").is_file()

    torn = run.checkpoints / f"step_{STEPS - 1:08}"
    torn.mkdir()
    code, text = start_training(run, dataset).wait()
    assert code == 0, text
    assert f"checkpoint {torn} skipped: " in text
    assert f"going on from {run.checkpoints / f'step_{stopped_at:08}'}" in text
    assert [attempt["state"] for attempt in attempts(run)] == ["failed", "lost", "stopped", "finished"]
    assert "rank 1" in attempts(run)[0]["reason"]
    assert attempts(run)[3]["first_step"] == stopped_at + 1
    assert steps_logged(run) == list(range(1, STEPS + 1))
    assert final_loss(run) == final_loss(undisturbed)


def test_a_finished_run_launches_nothing(dataset: DatasetFolder, undisturbed: RunFolder) -> None:
    before = attempts(undisturbed)
    undisturbed.trained.unlink()
    code, text = start_training(undisturbed, dataset, train_iters=STEPS - 10, lr_decay_iters=STEPS - 10).wait()
    assert code == 0, text
    assert f"trained to step {STEPS}, which is past `train_iters: {STEPS - 10}`" in text
    assert undisturbed.trained.is_file()
    assert attempts(undisturbed) == before


def test_a_changed_dataset_is_refused_before_a_rank_starts(tmp_path: Path, undisturbed: RunFolder) -> None:
    run = RunFolder(tmp_path / "run")
    shutil.copytree(undisturbed.path, run.path)
    run.trained.unlink()
    before = attempts(run)
    other = write_dataset(tmp_path / "other", train_tokens=150_000, validation_tokens=10_000)
    code, text = start_training(run, other).wait()
    assert code != 0
    (error,) = [line for line in text.splitlines() if line.startswith("error: ")]
    assert "was trained with dataset" in error and "--allow-change dataset" in error
    assert not run.trained.exists()
    assert attempts(run) == before


def test_an_error_in_the_ranks_is_one_sentence_and_is_not_repeated(tmp_path: Path, dataset: DatasetFolder) -> None:
    run = RunFolder(tmp_path / "run")
    code, text = start_training(run, dataset, **write_wrong_labels(tmp_path)).wait()
    assert code != 0
    assert len(attempts(run)) == 1
    (error,) = [line for line in text.splitlines() if line.startswith("error: ")]
    assert "a label is its token, or -100" in error
    assert "Traceback" not in text
    assert run.failure.is_file()
