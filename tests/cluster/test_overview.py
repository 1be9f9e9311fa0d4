import json
from pathlib import Path

from neox_train.cluster.ledger import RUNNING, Attempt, Ledger
from neox_train.cluster.overview import describe_run, list_runs
from neox_train.config.layout import RunFolder
from neox_train.config.load import load_config, write_config
from neox_train.locks import hold_lock


def begin(run: RunFolder) -> None:
    attempt = Attempt(1, "a-1", "local", "here", 1, 2, "logs/attempt-0001", 50.0, state=RUNNING, job_id="17")
    Ledger(run.ledger).add(attempt)
    run.metrics.write_text(json.dumps({"kind": "train", "step": 7, "loss": 3.5, "time": 60.0}) + "\n")


def test_a_living_run_and_one_whose_follower_is_gone(tmp_path: Path, cases: Path) -> None:
    run = RunFolder.of(tmp_path, "a")
    run.path.mkdir(parents=True)
    begin(run)
    with hold_lock(run.lock):
        state = describe_run(run)
    assert (state.state, state.steps, state.loss, state.job_id) == ("training", "7", 3.5, "17")
    # Ranks on one machine end with the command that started them; a Slurm job goes on.
    assert describe_run(run).state == "interrupted"
    assert "the same command continues" in describe_run(run).note
    write_config(load_config([cases / "base.yml", cases / "optimizer.yml"], world_size=1), run.config_file)
    assert describe_run(run).steps == "7/20"
    run.config_file.write_text("train_iters: [\n")
    assert describe_run(run).state == "damaged"


def test_stages_and_failures(tmp_path: Path) -> None:
    run = RunFolder.of(tmp_path, "a")
    run.path.mkdir(parents=True)
    assert describe_run(run).state == "new"
    run.estimated.write_text("{}")
    assert describe_run(run).state == "estimated"
    run.failure.write_text(json.dumps({"stage": "train", "sentence": "the disk is full"}))
    assert (describe_run(run).state, describe_run(run).note) == ("train failed", "the disk is full")
    stopped = {"stage": "train", "sentence": "run a stopped at step 7 of 20", "outcome": "stopped"}
    run.failure.write_text(json.dumps(stopped))
    assert (describe_run(run).state, describe_run(run).note) == ("stopped", "run a stopped at step 7 of 20")
    run.failure.unlink()
    run.trained.write_text("{}")
    run.converted.write_text("{}")
    assert describe_run(run).state == "converted"


def test_runs_by_name(tmp_path: Path) -> None:
    for name in ("b", "a"):
        RunFolder.of(tmp_path, name).path.mkdir(parents=True)
    assert [run.name for run in list_runs(tmp_path)] == ["a", "b"]
    assert [run.name for run in list_runs(tmp_path, "b")] == ["b"]
    assert list_runs(tmp_path / "nowhere") == []


def test_a_torn_record_is_one_line_and_hides_no_other_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        RunFolder.of(tmp_path, name).path.mkdir(parents=True)
    RunFolder.of(tmp_path, "a").ledger.write_text('{"attempts": [')
    torn, whole = list_runs(tmp_path)
    assert (torn.state, whole.state) == ("damaged", "new")
    assert "job.json" in torn.note and "\n" not in torn.note
