import math
from pathlib import Path

import pytest

from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.config.variables import ALLOW_CHANGE
from neox_train.errors import CheckpointError, ConfigError, DataError, TrainingError
from neox_train.files import read_json, sha256_file
from neox_train.monitoring.metrics import read_metrics
from neox_train.training.distributed import RankContext
from neox_train.training.entry import train_rank
from neox_train.training.stop import clear_stop, request_stop
from tests.training.synthetic import resolve, write_dataset, write_run


@pytest.fixture(autouse=True)
def _alone(alone: RankContext) -> None:
    pass


def train_steps(run: RunFolder) -> list[int]:
    return [record["step"] for record in read_metrics(run.metrics) if record["kind"] == "train"]


def losses(run: RunFolder) -> dict[int, float]:
    return {record["step"]: record["loss"] for record in read_metrics(run.metrics) if record["kind"] == "train"}


def snapshot(run: RunFolder) -> dict[str, tuple[int, int]]:
    files = [path for path in run.path.rglob("*") if path.is_file() and path != run.finished]
    return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


def test_a_run_leaves_metrics_checkpoints_and_its_record(tmp_path: Path, dataset: DatasetFolder) -> None:
    run = write_run(tmp_path / "tiny", dataset)
    assert train_rank(str(run.path)) == "finished"
    assert train_steps(run) == list(range(1, 21))
    validated = [record for record in read_metrics(run.metrics) if record["kind"] == "validation"]
    assert [record["step"] for record in validated] == [10, 20]
    assert validated[1]["perplexity"] == pytest.approx(math.exp(validated[1]["loss"]))
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["latest", "step_00000010", "step_00000020"]
    finished = read_json(run.finished)
    checkpoint = run.path / finished["checkpoint"]
    assert finished["manifest_sha256"] == sha256_file(checkpoint / "manifest.json")
    assert read_json(checkpoint / "manifest.json")["final"] is True
    assert (finished["run"], finished["step"], finished["train_iters"]) == ("tiny", 20, 20)
    assert (finished["consumed_samples"], finished["consumed_tokens"]) == (80, 80 * 64)
    assert finished["train_loss"] == losses(run)[20] < losses(run)[1] - 0.5
    assert finished["validation_loss"] == validated[1]["loss"]
    assert 0 < finished["peak_memory_gib"] < 8
    assert finished["training_digest"] == resolve(dataset, run).training_digest()


def test_test_data_are_measured_once_at_the_end_and_kept_by_the_last_checkpoint(
    tmp_path: Path, dataset: DatasetFolder
) -> None:
    changes = {"test_data_paths": [str(dataset.path)], "eval_iters": 1, "train_micro_batch_size_per_gpu": 2}
    run = write_run(tmp_path / "tiny", dataset, train_iters=4, checkpoint_factor=2, **changes)
    train_rank(str(run.path))
    tested = [record for record in read_metrics(run.metrics) if record["kind"] == "test"]
    assert [record["step"] for record in tested] == [4]
    finished = read_json(run.finished)
    assert finished["test_loss"] == tested[0]["loss"] != finished["validation_loss"]
    assert tested[0]["perplexity"] == pytest.approx(math.exp(tested[0]["loss"]))
    run.finished.unlink()
    train_rank(str(run.path))
    assert read_json(run.finished)["test_loss"] == tested[0]["loss"]


def test_the_logged_learning_rate_is_the_schedule(tmp_path: Path, dataset: DatasetFolder) -> None:
    run = write_run(tmp_path / "tiny", dataset, lr_decay_iters=100, train_iters=12)
    train_rank(str(run.path))
    rates = [record["lr"] for record in read_metrics(run.metrics) if record["kind"] == "train"]
    assert rates[0] == rates[1] == pytest.approx(1e-4)
    assert rates[5] == pytest.approx(5e-4)
    assert rates[11] == pytest.approx(9.997258722e-4)


def test_a_trained_run_is_left_alone_and_its_record_comes_back(tmp_path: Path, dataset: DatasetFolder) -> None:
    run = write_run(tmp_path / "tiny", dataset)
    train_rank(str(run.path))
    before, record = snapshot(run), run.finished.read_bytes()
    run.finished.unlink()
    assert train_rank(str(run.path)) == "finished"
    assert run.finished.read_bytes() == record
    assert snapshot(run) == before


def test_a_stopped_run_ends_as_the_unbroken_one(tmp_path: Path, dataset: DatasetFolder) -> None:
    whole, broken = (write_run(tmp_path / name, dataset, log_interval=3) for name in ("whole", "broken"))
    train_rank(str(whole.path))
    request_stop("the wall is near")
    assert train_rank(str(broken.path)) == "stopped"
    assert not broken.finished.exists()
    assert [path.name for path in broken.checkpoints.glob("step_*")] == ["step_00000001"]
    clear_stop()
    assert train_rank(str(broken.path)) == "finished"
    assert losses(whole).items() <= losses(broken).items()
    weights = [run.checkpoints / "step_00000020" / "rank_00000.safetensors" for run in (whole, broken)]
    assert sha256_file(weights[0]) == sha256_file(weights[1])


def test_more_steps_continue_a_finished_run(tmp_path: Path, dataset: DatasetFolder) -> None:
    whole = write_run(tmp_path / "whole", dataset, train_iters=30)
    train_rank(str(whole.path))
    run = write_run(tmp_path / "longer", dataset)
    train_rank(str(run.path))
    write_run(run.path, dataset, train_iters=30)
    assert train_rank(str(run.path)) == "finished"
    assert losses(run) == losses(whole)
    assert read_json(run.finished)["step"] == 30


def test_a_changed_training_is_refused_with_both_values(
    tmp_path: Path, dataset: DatasetFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "tiny", dataset, train_iters=10)
    train_rank(str(run.path))
    before = snapshot(run)
    write_run(run.path, dataset, weight_decay=0.2)
    changed = snapshot(run)
    with pytest.raises(CheckpointError, match=r"weight_decay 0\.1 \(now 0\.2\).*--allow-change weight_decay"):
        train_rank(str(run.path))
    assert snapshot(run) == changed and before.keys() == changed.keys()
    monkeypatch.setenv(ALLOW_CHANGE, "weight_decay")
    assert train_rank(str(run.path)) == "finished"


def test_lines_follow_the_interval_and_carry_the_mean(tmp_path: Path, dataset: DatasetFolder) -> None:
    every, some = (write_run(tmp_path / name, dataset, log_interval=n) for name, n in (("every", 1), ("some", 4)))
    train_rank(str(every.path))
    train_rank(str(some.path))
    assert train_steps(some) == [4, 8, 10, 12, 16, 20]
    means = {record["step"]: record["mean_loss"] for record in read_metrics(some.metrics) if record["kind"] == "train"}
    own = losses(every)
    assert means[4] == pytest.approx(sum(own[step] for step in (1, 2, 3, 4)) / 4, rel=1e-12)
    assert means[10] == pytest.approx(sum(own[step] for step in (9, 10)) / 2, rel=1e-12)
    assert losses(some).items() <= own.items()


def test_old_checkpoints_go_and_extra_ones_stay(tmp_path: Path, dataset: DatasetFolder) -> None:
    run = write_run(tmp_path / "tiny", dataset, checkpoint_factor=5, extra_save_iters=[0, 3], keep_last_n_checkpoints=1)
    train_rank(str(run.path))
    kept = sorted(path.name for path in run.checkpoints.glob("step_*"))
    assert kept == ["step_00000000", "step_00000003", "step_00000020"]


def test_weights_that_are_no_numbers_end_the_run_and_never_replace_the_last_good_checkpoint(
    tmp_path: Path, dataset: DatasetFolder
) -> None:
    run = write_run(
        tmp_path / "tiny",
        dataset,
        train_iters=100,
        extra_save_iters=[1],
        keep_last_n_checkpoints=1,
        lr_decay_style="constant",
        warmup=0.0,
        optimizer={"type": "SGD", "params": {"lr": 1e30}},
        gradient_clipping=0.0,
        weight_decay=0.0,
    )
    with pytest.raises(TrainingError, match=r"50 consecutive steps.*step_00000001 is intact"):
        train_rank(str(run.path))
    assert [path.name for path in run.checkpoints.glob("step_*")] == ["step_00000001"]
    last = [record for record in read_metrics(run.metrics) if record["kind"] == "train"][-1]
    assert last["loss"] is None and last["skipped_steps"] >= 40
    assert not run.finished.exists()


def test_a_vocabulary_that_is_not_the_datasets_is_refused(tmp_path: Path, dataset: DatasetFolder) -> None:
    run = write_run(tmp_path / "tiny", dataset)
    text = run.config_file.read_text().replace("vocab_size: 97\n", "vocab_size: 101\n", 1)
    run.config_file.write_text(text)
    with pytest.raises(ConfigError, match=r"`vocab_size` is 101.*97 token ids"):
        train_rank(str(run.path))


def test_a_validation_split_without_a_window_is_told_before_the_first_step(tmp_path: Path) -> None:
    small = write_dataset(tmp_path / "data", validation_tokens=0)
    run = write_run(tmp_path / "tiny", small)
    with pytest.raises(DataError, match="validation split"):
        train_rank(str(run.path))
    assert not run.metrics.exists()


def test_load_of_another_run_starts_from_its_weights_and_a_wrong_path_is_no_silent_start_at_zero(
    tmp_path: Path, dataset: DatasetFolder
) -> None:
    first = write_run(tmp_path / "first", dataset, train_iters=10)
    train_rank(str(first.path))
    second = write_run(tmp_path / "second", dataset, load=str(first.checkpoints))
    train_rank(str(second.path))
    assert train_steps(second) == list(range(11, 21))
    third = write_run(tmp_path / "third", dataset, load=str(tmp_path / "frist" / "checkpoints"))
    with pytest.raises(CheckpointError, match="frist"):
        train_rank(str(third.path))


def test_without_a_length_the_run_is_refused(tmp_path: Path, dataset: DatasetFolder) -> None:
    run = write_run(tmp_path / "tiny", dataset)
    lines = run.config_file.read_text().splitlines()
    run.config_file.write_text("\n".join(line for line in lines if not line.startswith("train_iters")))
    with pytest.raises(ConfigError, match=r"train_iters.* is not set"):
        train_rank(str(run.path))
