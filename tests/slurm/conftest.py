"""The Slurm cluster that these tests share; without Slurm they skip and say how to get it (in CI they fail)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from neox_train.config.layout import DatasetFolder
from tests.training.synthetic import write_dataset

from .lab import SlurmLab, find_free_base_port, find_missing_daemons
from .trainings import STEPS, Training

_INSTALL = "sudo apt-get install -y slurmctld slurmd slurm-client munge"


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmLab]:
    """A running cluster of four nodes; SLURM_CONF points at it for every process of the session."""
    missing = find_missing_daemons()
    if missing:
        pytest.skip(f"no {', '.join(missing)} here; to run this test: {_INSTALL}")
    lab = SlurmLab(folder=Path(tmp_path_factory.mktemp("slurm")), base_port=find_free_base_port())
    before = os.environ.get("SLURM_CONF")
    try:
        lab.start()
        os.environ["SLURM_CONF"] = str(lab.configuration)
        yield lab
    finally:
        lab.stop()
        if before is None:
            os.environ.pop("SLURM_CONF", None)
        else:
            os.environ["SLURM_CONF"] = before


@pytest.fixture
def default_place(slurm: SlurmLab) -> Iterator[None]:
    """The cluster's slurm.conf where Slurm looks by itself: the plugin's job step drops SLURM_CONF."""
    place = Path("/etc/slurm/slurm.conf")
    if os.geteuid() != 0 or place.exists():
        pytest.skip(f"needs to put its own {place} there: run as root on a machine without a Slurm of its own")
    place.symlink_to(slurm.configuration)
    yield
    place.unlink()


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> DatasetFolder:
    """A token store for every training of these tests."""
    folder = tmp_path_factory.mktemp("dataset") / "synthetic"
    return write_dataset(folder, train_tokens=200_000, validation_tokens=30_000)


@pytest.fixture(scope="session", params=[1, pytest.param(2, marks=pytest.mark.full)], ids="ranks_a_node_{}".format)
def undisturbed(
    request: pytest.FixtureRequest,
    slurm: SlurmLab,
    dataset: DatasetFolder,
    tmp_path_factory: pytest.TempPathFactory,
) -> Training:
    """The reference: the ranks of 2 nodes train to the end, and nothing happens to them."""
    facts = {"processes_per_node": request.param}
    training = Training(tmp_path_factory.mktemp("undisturbed"), dataset, facts=facts)
    command = training.start()
    assert command.wait() == 0, command.text
    assert [step for step, _ in training.losses] == list(range(1, STEPS + 1))
    return training
