"""The cluster file: facts of one partition (or of this machine) that a run is launched with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field

from neox_train.config.reader import Place, read_yaml
from neox_train.config.records import Record, build_record
from neox_train.errors import ConfigError


class PeakTflops(Record):
    """Dense peak of one GPU, in TFLOP/s, by number format."""

    bfloat16: float | None = Field(None, gt=0)
    fp16: float | None = Field(None, gt=0)
    fp32: float | None = Field(None, gt=0)
    fp8: float | None = Field(None, gt=0)


class Gpu(Record):
    """One kind of GPU."""

    type: str = Field(description="Name Slurm knows it by, or any name on a machine without Slurm.")
    memory_gib: float = Field(gt=0, description="Memory of one GPU, in GiB, as the driver reports it.")
    compute_capability: float = Field(gt=0, description="8.0 is A100, 8.9 is L40S, 9.0 is H100 and H200.")
    peak_tflops: PeakTflops = Field(default_factory=PeakTflops)


class Gate(Record):
    """Fractions of a GPU's memory at which the estimate warns and refuses."""

    refuse_above: float = Field(0.95, gt=0)
    warn_above: float = Field(0.88, gt=0)


class Cluster(Record):
    """Facts of a partition; ``memory_gib_per_process`` is the budget where there is no GPU."""

    name: str = "local"
    executor: Literal["local", "slurm"] = "local"
    device: Literal["cpu", "cuda"] = "cpu"
    processes_per_node: int = Field(1, ge=1, description="Training processes on a node; one for each GPU.")
    cpus_per_process: int = Field(1, ge=1)
    gpu: Gpu | None = None
    memory_gib_per_process: float | None = Field(None, gt=0)
    results: str = "results"
    cache: str | None = None
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
    time_limit_minutes: int = Field(1440, ge=1)
    signal_lead_seconds: int = Field(300, ge=1, description="How long before the wall the ranks are told to save.")
    environment: dict[str, str] = Field(default_factory=dict)
    setup: list[str] = Field(default_factory=list, description="Shell lines run before the interpreter starts.")
    python: str | None = Field(None, description="Interpreter on the compute nodes; default the submitter's.")
    slurm_extra: dict[str, str] = Field(default_factory=dict, description="More sbatch options by name.")
    gate: Gate = Field(default_factory=Gate)
    max_restarts: int = Field(3, ge=0)
    source: str | None = Field(None, description="Where the numbers of this file come from.")
    measured: bool = Field(False, description="Whether its rates were measured on this hardware.")

    @property
    def results_path(self) -> Path:
        """``results`` with ``$VARIABLES`` and ``~`` expanded."""
        return expand_path(self.results)

    @property
    def memory_budget_gib(self) -> float | None:
        """Memory of one process, in GiB: its GPU's, or its share of the machine's; None where the file names none."""
        return self.gpu.memory_gib if self.device == "cuda" and self.gpu else self.memory_gib_per_process


def load_cluster(path: Path | str) -> Cluster:
    """Read a cluster file (YAML or JSON); raises ConfigError with file, line and key."""
    document = read_yaml(path)
    return _build(document.values, document.places, document.file)


def parse_cluster(facts: Mapping[str, Any], *, files: Sequence[Path | str] = ()) -> Cluster:
    """Read the facts from a mapping, as Snakemake's ``config`` holds them; its ``pipeline`` key is passed over.

    A YAML reader has turned text like ``0123456`` or ``no`` into a number or a truth value: the characters typed, and
    the lines, are read from ``files`` (those the mapping was made of). Where they are not found the value is refused
    with the way to write it.
    """
    values, places, where = dict(facts), dict[str, Place](), "the cluster facts"
    for file in files:
        document, understood = read_yaml(file), _read_as_snakemake(Path(file))
        for key, value in document.values.items():
            if key in values and values[key] == understood.get(key):
                values[key], where = value, document.file
                places.update({path: place for path, place in document.places.items() if _is_below(path, key)})
    for key in sorted(_TEXT_KEYS & values.keys() - places.keys()):
        if values[key] is not None and not isinstance(values[key], str):
            raise ConfigError(f'{where}: {key} is {values[key]!r}, not text; write it in quotes, as {key}: "..."')
    return _build(values, places, where)


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


def _build(values: Mapping[str, Any], places: Mapping[str, Place], where: str) -> Cluster:
    own = {key: value for key, value in values.items() if key not in _SNAKEMAKE_KEYS}
    cluster = build_record(Cluster, own, places, where=where)
    if cluster.device == "cuda" and cluster.gpu is None:
        raise ConfigError(f"{where}: device is cuda but gpu is missing; set gpu.type, memory_gib, compute_capability")
    return cluster


_SNAKEMAKE_KEYS = frozenset({"pipeline"})
_TEXT_KEYS = frozenset(name for name, field in Cluster.model_fields.items() if field.annotation in (str, str | None))
