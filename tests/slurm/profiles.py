"""Snakemake profiles for the test cluster, in a working copy of the workflow."""

from __future__ import annotations

from tests.workflow.working_copy import WorkingCopy

from .trainings import FACTS

PROFILE = "cluster_profiles/lab"
PLUGIN = """
executor: slurm
jobs: 4
cores: 100
local-cores: 100
configfile: cluster.yaml
nolock: true
rerun-incomplete: true
rerun-triggers: [mtime, params, input]
latency-wait: 60
slurm-status-command: squeue
slurm-init-seconds-before-status-checks: 2
default-resources: {runtime: 10, mem_mb: 2000}
"""
"""Every stage beside the training is a job of the executor plugin."""


def write_profile(copy: WorkingCopy, options: str) -> None:
    """Write PROFILE with Snakemake's ``options`` and the test cluster's facts."""
    profile = copy.folder / PROFILE
    profile.mkdir(exist_ok=True)
    (profile / "config.yaml").write_text(options)
    facts = {**FACTS, "memory_gib_per_process": 2, "results": "results"}
    (profile / "cluster.yaml").write_text("".join(f"{key}: {value!r}\n" for key, value in facts.items()))
