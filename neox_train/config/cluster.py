"""The cluster file: facts of one partition (or of this machine) that a run is launched with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field

from neox_train.config.cluster_records import CpuStages, Gate, Gpu, Network, PeakTflops, Preflight, Rates
from neox_train.config.cluster_sources import read_assignments, read_environment
from neox_train.config.reader import Place, read_yaml
from neox_train.config.records import Record, build_record
from neox_train.errors import ConfigError

__all__ = ["Cluster", "Gpu", "PeakTflops", "expand_path", "load_cluster", "parse_cluster"]


class Cluster(Record):
    """Facts of a partition; ``memory_gib_per_process`` is the budget where there is no GPU."""

    name: str = "local"
    executor: Literal["local", "slurm"] = "local"
    device: Literal["cpu", "cuda"] = "cpu"
    processes_per_node: int = Field(1, ge=1, description="Training processes on a node; one for each GPU.")
    cpus_per_process: int = Field(1, ge=1)
    gpu: Gpu | None = None
    memory_gib_per_process: float | None = Field(None, gt=0)
    network: Network = Field(default_factory=Network)
    results: str = Field("results", description="Folder of everything that is written; $VARIABLES are expanded.")
    results_purge_days: int | None = Field(None, ge=1, description="Age at which the site deletes files there.")
    cache: str | None = None
    node_local_scratch: str | None = Field(None, description="Folder on a compute node's own disk.")
    internet: bool = Field(True, description="Whether compute nodes reach the internet; false sets HF_HUB_OFFLINE.")
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    reservation: str | None = None
    exclude: str | None = None
    mail_user: str | None = None
    mail_type: str | None = None
    memory_per_node: str | None = Field(None, description="Slurm's --mem, as 0 or 480G.")
    gres_style: Literal["gpus-per-node", "gres", "none"] = "gpus-per-node"
    gres_type: str | None = Field(None, description="GPU type named in the request, where a partition mixes types.")
    cpu_stages: CpuStages = Field(default_factory=CpuStages)
    accounting: bool | None = Field(None, description="Whether sacct and sacctmgr answer; null is not known.")
    preempt_mode: Literal["off", "requeue", "cancel", "suspend", "gang"] | None = None
    time_limit_minutes: int = Field(1440, ge=1)
    signal_lead_seconds: int = Field(300, ge=1, description="How long before the wall the ranks are told to save.")
    environment: dict[str, str] = Field(default_factory=dict)
    setup: list[str] = Field(default_factory=list, description="Shell lines run before the interpreter starts.")
    python: str | None = Field(None, description="Interpreter on the compute nodes; default the submitter's.")
    slurm_extra: dict[str, str] = Field(default_factory=dict, description="More sbatch options by name.")
    gate: Gate = Field(default_factory=Gate)
    preflight: Preflight = Field(default_factory=Preflight)
    rates: Rates = Field(default_factory=Rates)
    max_restarts: int = Field(3, ge=0)
    source: str | None = Field(None, description="Where the facts of this file come from.")
    measured: bool = Field(False, description="Whether they were seen on this cluster.")

    @property
    def results_path(self) -> Path:
        """``results`` with ``$VARIABLES`` and ``~`` expanded."""
        return expand_path(self.results)

    @property
    def memory_budget_gib(self) -> float | None:
        """Memory of one process, in GiB: its GPU's, or its share of the machine's; None where the file names none."""
        return self.gpu.memory_gib if self.device == "cuda" and self.gpu else self.memory_gib_per_process


def load_cluster(path: Path | str, *, command_line: Sequence[str] = ()) -> Cluster:
    """Read a cluster file (YAML or JSON); raises ConfigError with file, line and key.

    Entries ``KEY=VALUE`` of ``command_line`` win over the file; NEOX_TRAIN_ACCOUNT and the like fill what neither sets.
    """
    document = read_yaml(path)
    return _build(document.values, document.places, document.file, command_line)


def parse_cluster(
    facts: Mapping[str, Any], *, files: Sequence[Path | str] = (), command_line: Sequence[str] = ()
) -> Cluster:
    """Read the facts from a mapping, as Snakemake's ``config`` holds them; its ``pipeline`` key is passed over.

    A YAML reader has turned text like ``0123456`` or ``no`` into a number or a truth value: the characters typed, and
    the lines, are read from ``files`` (those the mapping was made of) and from the ``command_line`` entries. Where
    they are not found the value is refused with the way to write it.
    """
    values, places, where = dict(facts), dict[str, Place](), "the cluster facts"
    typed = {entry.partition("=")[0] for entry in command_line}
    for file in files:
        document, understood = read_yaml(file), _read_as_snakemake(Path(file))
        for key, value in document.values.items():
            if key in values and values[key] == understood.get(key):
                values[key], where = value, document.file
                places.update({path: place for path, place in document.places.items() if _is_below(path, key)})
    for key in sorted(_TEXT_KEYS & values.keys() - places.keys() - typed):
        if values[key] is not None and not isinstance(values[key], str):
            raise ConfigError(f'{where}: {key} is {values[key]!r}, not text; write it in quotes, as {key}: "..."')
    return _build(values, places, where, command_line)


def _read_as_snakemake(path: Path) -> dict[str, Any]:
    value = yaml.safe_load(path.read_text(encoding="utf-8"))
    return value if isinstance(value, dict) else {}


def _is_below(path: str, key: str) -> bool:
    return path == key or path.startswith((key + ".", key + "["))


def expand_path(text: str) -> Path:
    """A path with ``$VARIABLES`` and ``~`` expanded; raises ConfigError when a variable is not set."""
    expanded = os.path.expandvars(os.path.expanduser(text))
    if "$" in expanded:
        raise ConfigError(f"{text} names an environment variable that is not set; set it, or write the path out")
    return Path(expanded)


def _build(values: Mapping[str, Any], places: Mapping[str, Place], where: str, command_line: Sequence[str]) -> Cluster:
    typed = read_assignments(command_line, Cluster.model_fields.keys(), _TEXT_KEYS)
    own = {key: value for key, value in values.items() if key not in _SNAKEMAKE_KEYS} | typed.values
    kept = {path: place for path, place in places.items() if not any(_is_below(path, key) for key in typed.values)}
    filled = read_environment(own)
    # A key written as null has a place with that word; it must not come back as the text.
    kept = {path: place for path, place in (kept | typed.places).items() if path not in filled}
    cluster = build_record(Cluster, own | filled, kept, where=where)
    if cluster.device == "cuda" and cluster.gpu is None:
        raise ConfigError(f"{where}: device is cuda but gpu is missing; set gpu.type, memory_gib, compute_capability")
    return cluster


_SNAKEMAKE_KEYS = frozenset({"pipeline"})
_TEXT_KEYS = frozenset(name for name, field in Cluster.model_fields.items() if field.annotation in (str, str | None))
