"""One job that Slurm starts four times, or two jobs of one run, followers killed meanwhile: the curve is the same."""

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
    training = Training(tmp_path, dataset, facts={**undisturbed.facts, "partition": "scavenge"})
    first = training.start()
    first.wait_until(training.trains(0))
    with training.paused(0):
        slurm.run("scancel", "--signal=USR2", training.job_id)
    first.wait_until(lambda: slurm.state(training.job_id) == "PENDING")
    # Saved on the signal: nothing is lost, and rank 0 alone put the job back.
    saved_at = training.losses[-1][0]
    assert (training.run.checkpoints / f"step_{saved_at:08}" / "manifest.json").is_file()
    assert {record["outcome"] for record in training.ranks(0).values()} == {"stopped"}

    # The follower is killed while the job waits; the same command attaches to it.
    first.kill()
    second = training.start()
    second.wait_until(lambda: "attached to job" in second.text)
    # Two followers: the third command says whose run it is, and ends with the second.
    third = training.start()
    third.wait_until(lambda: "following it" in third.text)
    second.wait_until(training.trains(1))

    with training.paused(1):
        slurm.displace(training.job_id)
    second.wait_until(training.trains(2))

    node = training.ranks(2)[training.processes - 1]["host"]
    with training.paused(2):
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
    # Within its grace the displaced job may have saved and put itself back into the queue before Slurm does.
    assert states[1] in ("PREEMPTED", "PENDING")
    assert [states[0], *states[2:]] == ["PENDING", "NODE_FAIL", "COMPLETED"]


def test_a_lost_ledger_and_a_second_job_do_no_harm(
    slurm: SlurmLab, dataset: DatasetFolder, undisturbed: Training, tmp_path: Path
) -> None:
    training = Training(tmp_path / "Größe 1", dataset, facts=undisturbed.facts)
    command = training.start()
    command.wait_until(training.trains(0))
    with training.paused(0):
        command.kill()

        # job.json is gone: the log folders tell of the job, and the same command attaches to it.
        job_id = training.job_id
        training.run.ledger.unlink()
        command = training.start()
        command.wait_until(lambda: f"attached to job {job_id}" in command.text)
        assert [attempt["job_id"] for attempt in training.attempts] == [job_id]

        # Its script is submitted once more, by hand: that job's rank 0 waits for the first one's.
        folder = training.run.path / training.attempts[0]["folder"]
        second = slurm.run("sbatch", "--parsable", str(folder / "submission.sh")).stdout.strip()
    assert command.wait() == 0, command.text
    ends = [folder / f"{second}_{rank}_start0_rank.json" for rank in range(training.processes)]
    slurm.wait_for(lambda: all(end.is_file() and '"outcome": "finished"' in end.read_text() for end in ends))
    assert training.losses == undisturbed.losses


def test_slurms_own_signal_before_the_wall(slurm: SlurmLab, dataset: DatasetFolder, tmp_path: Path) -> None:
    # A limit of one minute, whose signal Slurm sends by itself; the partition lets a slow machine overrun it.
    facts = {"partition": "short", "time_limit_minutes": 1, "processes_per_node": 1, "max_restarts": 10}
    endless = {"train_iters": 1_000_000, "checkpoint_factor": 100_000, "eval_interval": 1_000_000}
    training = Training(tmp_path / "short", dataset, nodes=1, facts=facts, changes=endless)
    unbroken = Training(tmp_path / "long", dataset, nodes=1, facts={"processes_per_node": 1}, changes=endless)
    command, reference = training.start(), unbroken.start()
    command.wait_until(lambda: training.find_resumed() is not None, timeout_seconds=400)
    script = (training.run.path / training.attempts[0]["folder"] / "submission.sh").read_text()
    assert "#SBATCH --signal=USR2@30\n" in script
    # On a slow machine a start may meet its wall before its first step.
    resumed = training.find_resumed()
    assert resumed is not None
    starts = training.attempts[0]["starts"][:resumed]
    assert [(start["start"], start["cause"]) for start in starts] == [(n, causes.WALL) for n in range(resumed)]
    steps = [step for step, _ in training.losses]
    assert steps == sorted(set(steps))
    # Resumed at the very step of the signal.
    saved_at = training.ranks(resumed)[0]["step"]
    assert (training.run.checkpoints / f"step_{saved_at:08}" / "manifest.json").is_file()
    assert training.command("cancel", training.name)[0] == 0
    assert command.wait() == 6
    # On the other side of the wall the curve is the unbroken one, bit for bit.
    losses = training.losses
    assert losses[-1][0] > saved_at
    reference.wait_until(lambda: len(unbroken.records) >= len(losses))
    assert unbroken.losses[: len(losses)] == losses
    assert unbroken.command("cancel", unbroken.name)[0] == 0
    assert reference.wait() == 6
