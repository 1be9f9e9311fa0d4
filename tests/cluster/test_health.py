from typing import Any

import pytest

from neox_train.cluster.health import require_same_software
from neox_train.cluster.job_note import JobNote
from neox_train.cluster.node_facts import describe_software
from neox_train.config.cluster import Cluster
from neox_train.errors import PreflightError


def note(**changes: Any) -> JobNote:
    return JobNote(Cluster(executor="slurm"), {**describe_software(), **changes}, 300)


def test_the_same_software_passes_whatever_is_installed_of_this_project() -> None:
    packages = describe_software()["packages"]
    require_same_software(note())
    require_same_software(note(packages={**packages, "neox-train": "0.0.1"}))
    require_same_software(note(packages={**packages, "torch": "1.0"}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"code": "other"}, "code on the node"),
        ({"python": "3.2.1"}, "Python on the node"),
        ({"packages": {"submitit": "0.0.1"}}, "submitit"),
    ],
)
def test_a_mismatch_is_refused_in_a_sentence(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(PreflightError, match=words):
        require_same_software(note(**changes))


def test_a_named_interpreter_may_be_another_version() -> None:
    software = {**describe_software(), "python": "3.2.1"}
    require_same_software(JobNote(Cluster(executor="slurm", python="python3"), software, 300))
