"""Whether a job runs what was submitted, on nodes that the profile describes: asked by every rank before it trains."""

from __future__ import annotations

from pathlib import Path

from neox_train.cluster.check import FAILED
from neox_train.cluster.job_note import JobNote
from neox_train.cluster.node_checks import check_versions
from neox_train.cluster.node_facts import describe_software
from neox_train.cluster.preflight import require_bandwidth, require_healthy_node, require_transport
from neox_train.config.layout import RunFolder
from neox_train.errors import PreflightError, TrainingError


def require_health(note: JobNote, run: RunFolder, *, local_rank: int) -> None:
    """Raise PreflightError where the node or its software does not fit, naming finding and remedy."""
    if local_rank == 0:
        require_same_software(note)
    try:
        warnings = require_healthy_node(note.cluster, run.path, local_rank=local_rank)
    except TrainingError as error:
        raise PreflightError(str(error)) from error
    if local_rank == 0:
        for warning in warnings:
            print(f"warning: {warning}", flush=True)


def require_same_software(note: JobNote) -> None:
    """Raise PreflightError where this process is not the interpreter, submitit and code that were submitted."""
    here, there = _without_own(note.software), _without_own(describe_software())
    for check in check_versions(here, there, note.cluster):
        if check.status == FAILED:
            raise PreflightError(f"the job does not run what was submitted: {check.sentence()}")


def _without_own(software: dict[str, object]) -> dict[str, object]:
    """The installed neox-train does not matter: a job runs the snapshot, whose digest is compared."""
    packages = software["packages"]
    assert isinstance(packages, dict)
    return {**software, "packages": {name: version for name, version in packages.items() if name != "neox-train"}}


def require_network(note: JobNote, folder: Path) -> None:
    """Raise PreflightError, on every rank, where NCCL took TCP against the profile, or all-reduce is below its floor.

    ``folder`` is the job's log folder, where NCCL's own logs lie.
    """
    try:
        require_transport(note.cluster, folder)
        require_bandwidth(note.cluster)
    except TrainingError as error:
        raise PreflightError(str(error)) from error
