"""Every check of a profile, in the order of the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from neox_train.cluster.check import Check, has_failed, skip
from neox_train.cluster.doctor_job import run_probe
from neox_train.cluster.doctor_login import check_login
from neox_train.cluster.doctor_slurm import check_slurm
from neox_train.cluster.environment import clean_environment
from neox_train.config.cluster import Cluster


def examine(
    cluster: Cluster,
    snakemake_profile: Path | None,
    *,
    nodes: int,
    job_nodes: int | None,
    wait_minutes: float,
    tell: Callable[[str], None],
    sweep_seconds: float = 0.0,
) -> list[Check]:
    """All checks; ``nodes`` is the largest request of the runs, ``job_nodes`` None leaves the job out."""
    with clean_environment():
        checks = check_login(cluster, snakemake_profile)
        if cluster.executor == "slurm":
            checks += check_slurm(cluster, nodes, read_options(snakemake_profile))
        if job_nodes is None:
            return [*checks, skip("job", "left out (--no-job)")]
        if has_failed(checks):
            return [*checks, skip("job", "not submitted: mend the failures first")]
        return checks + run_probe(
            cluster,
            cluster.results_path,
            job_nodes,
            wait_minutes=wait_minutes,
            tell=tell,
            sweep_seconds=sweep_seconds,
        )


def read_options(snakemake_profile: Path | None) -> dict[str, Any]:
    """Options of a Snakemake profile; empty without one."""
    if snakemake_profile is None or not snakemake_profile.is_file():
        return {}
    return dict(yaml.safe_load(snakemake_profile.read_text(encoding="utf-8")) or {})
