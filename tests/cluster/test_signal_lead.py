import json

import pytest

from neox_train.cluster.signal_lead import choose_lead_seconds
from neox_train.config.cluster import Cluster
from neox_train.config.layout import RunFolder


def write_checkpoint(run: RunFolder, step: int, **extra: float) -> None:
    folder = run.checkpoints / f"step_{step:08}"
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(json.dumps({"trainer": {"step": step, "extra": extra}}))


@pytest.fixture
def run(tmp_path) -> RunFolder:  # type: ignore[no-untyped-def]
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    return run


DAY = Cluster(executor="slurm", time_limit_minutes=1440, signal_lead_seconds=300)


def test_the_profiles_until_a_save_is_measured(run: RunFolder) -> None:
    assert choose_lead_seconds(DAY, run) == 300
    write_checkpoint(run, 10, seconds=5.0)
    assert choose_lead_seconds(DAY, run) == 300


def test_then_three_saves_and_steps_and_slurms_minute(run: RunFolder) -> None:
    write_checkpoint(run, 10, save_seconds=9000.0)
    write_checkpoint(run, 20, save_seconds=200.0)
    run.metrics.write_text(json.dumps({"kind": "train", "step": 20, "seconds_per_step": 20.0}) + "\n")
    assert choose_lead_seconds(DAY, run) == 60 + 3 * 220


def test_a_job_of_five_minutes_trains_for_half_of_them(run: RunFolder) -> None:
    short = DAY.model_copy(update={"time_limit_minutes": 5})
    assert choose_lead_seconds(short, run) == 150
    write_checkpoint(run, 10, save_seconds=100.0)
    assert choose_lead_seconds(short, run) == 150
    write_checkpoint(run, 20, save_seconds=1.5)
    assert choose_lead_seconds(short, run) == 65
