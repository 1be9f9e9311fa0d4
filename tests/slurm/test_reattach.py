"""The submitter killed at every moment, and a controller that does not answer: there is never a second job.

The jobs are held in the queue, so that nothing trains.
"""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from neox_train.config.layout import DatasetFolder
from tests.cluster.stand_ins import write_command

from .lab import SlurmLab
from .trainings import Command, Training

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(300)]


@pytest.fixture
def held(slurm: SlurmLab, dataset: DatasetFolder, tmp_path: Path) -> Training:
    return Training(tmp_path, dataset, facts={"slurm_extra": {"hold": ""}})


def follows(command: Command, job_id: str) -> None:
    command.wait_until(lambda: f"job {job_id}: PENDING (JobHeldUser)" in command.text)


def jobs(slurm: SlurmLab, training: Training) -> list[str]:
    """Ids of the run's jobs; the names of other tests' runs have another digest or none of these random parts."""
    return [job for attempt in training.attempts for job in slurm.jobs_named(attempt["name"])]


def test_killed_before_after_and_while_sbatch_runs(slurm: SlurmLab, held: Training, tmp_path: Path) -> None:
    real = slurm.program("sbatch")
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    path = {"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}

    # Killed between the intent and sbatch: nothing was queued, so the next command submits.
    write_command(bin_folder, "sbatch", "kill -9 $PPID")
    assert held.start(environment=path).wait() == -9
    assert [attempt["job_id"] for attempt in held.attempts] == [None]
    assert jobs(slurm, held) == []

    # Killed while sbatch is under way: it queues the job a while later, and the next command waits for it.
    write_command(bin_folder, "sbatch", f'kill -9 $PPID; sleep 3; exec {real} "$@"')
    assert held.start(environment=path).wait() == -9
    assert len(held.attempts) == 2
    command = held.start()
    command.wait_until(lambda: bool(held.attempts[-1]["job_id"]))
    (job_id,) = jobs(slurm, held)
    assert held.job_id == job_id
    follows(command, job_id)

    # Killed in the queue; the next one attaches.
    command.kill()
    command = held.start()
    follows(command, job_id)
    assert f"attached to job {job_id}" in command.text
    # From another shell: the state by name, and following without submitting.
    code, text = held.command("status")
    assert code == 0
    assert "PENDING (JobHeldUser)" in text and job_id in text
    assert command.interrupt() == 128 + signal.SIGINT
    assert "which goes on" in command.text
    assert slurm.state(job_id) == "PENDING"
    attached = held.start("attach", held.name)
    follows(attached, job_id)

    # A person's own scancel is an ending too, and nothing is submitted again.
    slurm.run("scancel", job_id)
    assert attached.wait() == 6
    assert held.attempts[-1]["cause"] == "cancelled"
    assert held.command()[0] == 6
    assert jobs(slurm, held) == [job_id]


def test_an_answer_that_never_came_is_no_reason_to_submit_twice(
    slurm: SlurmLab, held: Training, tmp_path: Path
) -> None:
    real = slurm.program("sbatch")
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    words = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
    write_command(bin_folder, "sbatch", f'{real} "$@" >/dev/null; echo "{words}" >&2; exit 1')
    command = held.start(environment={"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"})
    command.wait_until(lambda: bool(held.attempts) and bool(held.attempts[-1]["job_id"]))
    (job_id,) = jobs(slurm, held)
    follows(command, job_id)
    command.kill()

    # Queued, and the record of it lost with the submitter: while the controller is away nothing is concluded.
    ledger = json.loads(held.run.ledger.read_text())
    ledger["attempts"][-1] |= {"job_id": None, "state": "submitting"}
    held.run.ledger.write_text(json.dumps(ledger))
    slurm.stop_controller()
    try:
        command = held.start()
        command.wait_until(lambda: "squeue does not answer" in command.text)
        assert len(held.attempts) == 1
    finally:
        slurm.start_controller()
    follows(command, job_id)

    # The controller goes away while the job is followed, and comes back.
    slurm.stop_controller()
    try:
        command.wait_until(lambda: "Slurm does not answer since" in command.text)
    finally:
        slurm.start_controller()
    said = len(command.text)
    command.wait_until(lambda: f"job {job_id}: PENDING" in command.text[said:])
    assert jobs(slurm, held) == [job_id]
    code, text = held.command("cancel", held.name)
    assert code == 0, text
    assert command.wait() == 6


def test_a_follower_stays_small(slurm: SlurmLab, held: Training) -> None:
    command = held.start()
    command.wait_until(lambda: bool(held.attempts) and bool(held.attempts[-1]["job_id"]))
    follows(command, held.job_id)
    time.sleep(1.0)
    status = Path(f"/proc/{command.process.pid}/status").read_text()
    rss_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    held.command("cancel", held.name)
    assert command.wait() == 6
    assert rss_kib < 60 * 1024


def test_sbatchs_own_words_are_the_sentence(slurm: SlurmLab, dataset: DatasetFolder, tmp_path: Path) -> None:
    training = Training(tmp_path, dataset, facts={"partition": "debug", "time_limit_minutes": 600})
    code, text = training.command()
    assert code == 6
    assert "Requested time limit is invalid" in text
    assert [attempt["cause"] for attempt in training.attempts] == ["not submitted"]
    assert jobs(slurm, training) == []
