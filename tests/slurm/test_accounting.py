"""With accounting, a job that squeue has forgotten keeps its story: sacct tells how it ended, and finds it by name."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from neox_train.cluster import causes
from neox_train.cluster.slurm_facts import ask_associations
from neox_train.config.layout import DatasetFolder
from tests.cluster.stand_ins import write_command

from .accounting import ACCOUNT, find_missing_programs
from .lab import SlurmLab, find_free_base_port, find_missing_daemons
from .trainings import Training

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def accounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmLab]:
    """A cluster with slurmdbd whose squeue forgets an ended job within seconds."""
    missing = [*find_missing_daemons(), *find_missing_programs()]
    if missing:
        packages = "slurmctld slurmd slurm-client munge slurmdbd mariadb-server"
        pytest.skip(f"no {', '.join(missing)} here; to run this test: sudo apt-get install -y {packages}")
    lab = SlurmLab(
        folder=Path(tmp_path_factory.mktemp("accounted")),
        base_port=find_free_base_port(),
        keeps_accounts=True,
        min_job_age_seconds=2,
    )
    with pytest.MonkeyPatch.context() as patch:
        try:
            lab.start()
            patch.setenv("SLURM_CONF", str(lab.configuration))
            yield lab
        finally:
            lab.stop()


def forget(lab: SlurmLab, job_id: str) -> None:
    """Wait until squeue no longer knows an ended job."""
    lab.wait_for(lambda: lab.state(job_id) == "")


def test_the_account_is_looked_up(accounted: SlurmLab) -> None:
    assert ACCOUNT in {item.account for item in ask_associations() or ()}


def test_an_ending_that_squeue_forgot(accounted: SlurmLab, dataset: DatasetFolder, tmp_path: Path) -> None:
    training = Training(tmp_path, dataset, facts={"slurm_extra": {"hold": ""}, "account": ACCOUNT})
    command = training.start()
    command.wait_until(lambda: bool(training.attempts) and bool(training.attempts[-1]["job_id"]))
    command.wait_until(lambda: "PENDING (JobHeldUser)" in command.text)
    command.kill()
    job_id = training.job_id

    # The id is lost with the submitter, the job is cancelled, and squeue forgets it: the name finds it in sacct.
    ledger = json.loads(training.run.ledger.read_text())
    ledger["attempts"][-1] |= {"job_id": None, "state": "submitting"}
    training.run.ledger.write_text(json.dumps(ledger))
    accounted.run("scancel", job_id)
    forget(accounted, job_id)
    code, text = training.command()
    assert code == 6, text
    (attempt,) = training.attempts
    assert (attempt["job_id"], attempt["cause"]) == (job_id, causes.CANCELLED)
    assert "CANCELLED" in attempt["reason"], attempt


def test_trained_while_nobody_looked(accounted: SlurmLab, dataset: DatasetFolder, tmp_path: Path) -> None:
    training = Training(tmp_path, dataset, nodes=1, facts={"processes_per_node": 1, "account": ACCOUNT})
    command = training.start()
    command.wait_until(training.trains(0))
    command.kill()
    job_id = training.job_id
    forget(accounted, job_id)
    code, text = training.command()
    assert code == 0, text
    (attempt,) = training.attempts
    assert (attempt["job_id"], attempt["cause"]) == (job_id, causes.FINISHED)
    told = accounted.run("sacct", "-n", "-X", "-P", "-j", job_id, "-o", "State,Account,ReqTRES").stdout
    assert told.startswith(f"COMPLETED|{ACCOUNT}|")


@pytest.mark.full
def test_a_cancelled_job_that_slurm_forgot_is_told_by_its_ranks_and_its_log(
    accounted: SlurmLab, dataset: DatasetFolder, tmp_path: Path
) -> None:
    training = Training(tmp_path, dataset, nodes=1, facts={"processes_per_node": 1, "account": ACCOUNT})
    command = training.start()
    command.wait_until(training.trains(0))
    with training.paused(0):
        command.kill()
        accounted.run("scancel", training.job_id)
    forget(accounted, training.job_id)
    # As on a cluster without accounting: squeue no longer knows the job, and sacct does not answer.
    write_command(tmp_path, "sacct", "exit 1")
    stopped = training.start(environment={"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"})
    assert stopped.wait() == 6, stopped.text
    (attempt,) = training.attempts
    assert (attempt["state"], attempt["cause"]) == ("cancelled", causes.CANCELLED)


def test_a_strangers_account_is_refused_in_sbatchs_words(
    accounted: SlurmLab, dataset: DatasetFolder, tmp_path: Path
) -> None:
    training = Training(tmp_path, dataset, nodes=1, facts={"account": "nobodys"})
    code, text = training.command()
    assert code == 6
    assert "Invalid account" in text
    assert [attempt["cause"] for attempt in training.attempts] == [causes.NOT_SUBMITTED]
