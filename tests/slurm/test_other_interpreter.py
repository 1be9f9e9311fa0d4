"""The jobs' Python is another one than the submitter's: it runs the submitted code, and a mismatch is refused."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from neox_train.config.layout import DatasetFolder

from .lab import SlurmLab
from .trainings import Training

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(300)]


@pytest.fixture
def other_python(tmp_path: Path) -> Path:
    """The interpreter of a second virtual environment, which sees the packages of this one."""
    place = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, timeout=120)
    (site,) = place.glob("lib/python*/site-packages")
    (site / "these.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    return place / "bin" / "python"


def test_a_training_runs_in_the_interpreter_of_the_profile(
    slurm: SlurmLab, dataset: DatasetFolder, tmp_path: Path, other_python: Path
) -> None:
    facts = {"processes_per_node": 1, "python": str(other_python), "setup": [f"touch {tmp_path}/set-up"]}
    training = Training(tmp_path / "run", dataset, nodes=1, facts=facts, changes={"train_iters": 3})
    code, text = training.command()
    assert code == 0, text
    assert (tmp_path / "set-up").exists()
    folder = training.run.path / training.attempts[0]["folder"]
    assert f" {other_python} -u -m submitit" in (folder / "submission.sh").read_text()

    # The same with another submitit there: the job ends in its first second, in words, and is not repeated.
    (site,) = other_python.parent.parent.glob("lib/python*/site-packages")
    unlike = site / "submitit-0.0.1.dist-info"
    unlike.mkdir()
    (unlike / "METADATA").write_text("Metadata-Version: 2.1\nName: submitit\nVersion: 0.0.1\n")
    training = Training(tmp_path / "refused", dataset, nodes=1, facts=facts, changes={"train_iters": 3})
    code, text = training.command()
    assert code == 6
    assert "the job does not run what was submitted: packages on the node: submitit 0.0.1" in text
    assert [attempt["cause"] for attempt in training.attempts] == ["preflight"]
