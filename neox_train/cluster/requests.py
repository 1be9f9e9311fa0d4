"""The sbatch options that trainings and stages will ask for, as words: what doctor lets Slurm judge beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from neox_train.cluster.parameters import slurm_parameters
from neox_train.cluster.stage_jobs import stage_resources
from neox_train.config.cluster import Cluster

STAGES = ("tokenize", "convert", "evaluate")
_PYTHON_ONLY = ("job_name", "setup", "srun_args", "signal_delay_s", "stderr_to_stdout", "additional_parameters")
_OPTIONS = {
    "slurm_partition": "--partition",
    "slurm_account": "--account",
    "qos": "--qos",
    "constraint": "--constraint",
    "gres": "--gres",
    "runtime": "--time",
    "mem_mb": "--mem",
}


def request_options(cluster: Cluster, nodes: int) -> list[str]:
    """The training's options."""
    lead = cluster.signal_lead_seconds
    parameters = slurm_parameters(cluster, nodes, name="neox-train-doctor", signal_lead_seconds=lead)
    options = {key: value for key, value in parameters.items() if key not in _PYTHON_ONLY}
    options |= parameters["additional_parameters"]
    return [
        f"--{key.replace('_', '-')}" + ("" if value is True else f"={value}")
        for key, value in options.items()
        if value is not False
    ]


def stage_requests(cluster: Cluster, options: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Each stage's options, from the facts and from Snakemake's config.yaml; nothing without one.

    A value that Snakemake computes (``attempt * 60``) is left out.
    """
    if not options:
        return
    for stage in STAGES:
        resources = {
            **(options.get("default-resources") or {}),
            **stage_resources(cluster, stage),
            **((options.get("set-resources") or {}).get(stage) or {}),
        }
        words = [f"{_OPTIONS[key]}={value}" for key, value in resources.items() if key in _OPTIONS and _is_plain(value)]
        threads = (options.get("set-threads") or {}).get(stage, 1)
        extra = str(resources.get("slurm_extra", "")).split()
        yield stage, [*words, f"--cpus-per-task={threads}", "--ntasks=1", *extra]


def _is_plain(value: object) -> bool:
    return isinstance(value, int) or (isinstance(value, str) and " " not in value)
