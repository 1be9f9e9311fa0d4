"""One job that Slurm starts four times, its follower killed meanwhile: the curve equals the undisturbed one."""

from pathlib import Path

import pytest

from neox_train.cluster import causes
from neox_train.config.layout import DatasetFolder

from .lab import SlurmLab
from .trainings import Training

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]


def test_signal_preemption_and_node_failure_requeue_one_job(
    slurm: SlurmLab, dataset: DatasetFolder, undisturbed: Training, tmp_path: Path
) -> None:
    training = Training(tmp_path, dataset, facts={"partition": "scavenge"})
    first = training.start()
    first.wait_until(training.trains(0))
    slurm.run("scancel", "--signal=USR2", training.job_id)
    first.wait_until(lambda: slurm.state(training.job_id) == "PENDING")
    # Saved on the signal: nothing is lost, and rank 0 alone put the job back.
    saved_at = training.losses[-1][0]
    assert (training.run.checkpoints / f"step_{saved_at:08}" / "manifest.json").is_file()
    assert {record["outcome"] for record in training.ranks(0).values()} == {"stopped"}

    # The follower is killed while the job waits; the same command attaches to it.
    first.kill()
    second = training.start()
    second.wait_until(training.trains(1))
    assert "attached to job" in second.text

    slurm.run("sbatch", "-p", "urgent", "-N4", "--exclusive", "-o", "/dev/null", "--wrap", "true")
    second.wait_until(training.trains(2))

    # Two followers: the second one says whose run it is, and ends with the first.
    third = training.start()
    third.wait_until(lambda: "following it" in third.text)
    node = training.ranks(2)[3]["host"]
    slurm.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    second.wait_until(training.trains(3))

    assert second.wait() == 0, second.text
    assert third.wait() == 0, third.text
    assert training.losses == undisturbed.losses
    (attempt,) = training.attempts
    assert attempt["cause"] == causes.FINISHED
    found = [start["cause"] for start in attempt["starts"]]
    assert found == [causes.SIGNAL, causes.PREEMPTED, causes.NODE_FAILURE]
    slurm.wait_for(lambda: slurm.state(training.job_id) == "COMPLETED")
    states = [entry["JobState"] for entry in slurm.list_attempts() if entry["Name"] == attempt["name"]]
    assert states == ["PENDING", "PREEMPTED", "NODE_FAIL", "COMPLETED"]
