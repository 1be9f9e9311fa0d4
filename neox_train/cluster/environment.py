"""Environment variables of a training job, built from the cluster file, and of each rank."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from neox_train.config.cluster import Cluster
from neox_train.config.cluster_records import Network
from neox_train.config.schema import NeoxConfig
from neox_train.config.validation import describe_unknown_key
from neox_train.config.variables import ALLOW_CHANGE, LAUNCHER_PID
from neox_train.errors import ConfigError

_OF_AN_OUTER_JOB = ("SLURM_", "SLURMD_", "SRUN_", "SBATCH_", "SUBMITIT_")
_OF_AN_OUTER_TRAINING = (
    "MASTER_ADDR",
    "MASTER_PORT",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    LAUNCHER_PID,
)
_NOT_KEYS = ("dataset", "tokenizer")
"""What else than a key a resume compares."""


def job_variables(cluster: Cluster) -> dict[str, str]:
    """Variables that every rank starts with; the cluster file's ``environment`` wins over what its facts give."""
    variables = {
        "OMP_NUM_THREADS": str(max(1, cluster.cpus_per_process)),
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    if cluster.device == "cpu":
        variables["DS_ACCELERATOR"] = "cpu"
    if allowed := os.environ.get(ALLOW_CHANGE):
        variables[ALLOW_CHANGE] = allowed
    if not cluster.internet:
        # Libraries would otherwise wait for time-outs before they use what is on disk.
        variables |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    variables |= _network_variables(cluster.network)
    return {**variables, **{name: str(value) for name, value in cluster.environment.items()}}


def _network_variables(network: Network) -> dict[str, str]:
    """NCCL takes names as prefixes unless told otherwise: ``mlx5_1`` would take ``mlx5_10`` too."""
    variables = {}
    if network.interface:
        variables["NCCL_SOCKET_IFNAME"] = _exact(network.interface)
        variables["GLOO_SOCKET_IFNAME"] = network.interface.lstrip("=")
    if network.adapters:
        variables["NCCL_IB_HCA"] = _exact(network.adapters)
    return variables


def _exact(names: str) -> str:
    return names if names.startswith(("=", "^")) else f"={names}"


def allow_changes(keys: Sequence[str]) -> None:
    """Let jobs that this process submits resume although these keys changed (``--allow-change``).

    Raises ConfigError for a name that no refusal gives.
    """
    for key in keys:
        if key not in (known := {*NeoxConfig.model_fields, *_NOT_KEYS}):
            raise ConfigError(f"--allow-change: {describe_unknown_key(key, known)}")
    if keys:
        os.environ[ALLOW_CHANGE] = ",".join(keys)


def export_lines(variables: Mapping[str, str]) -> list[str]:
    """Shell lines that set the variables; a ``$NAME`` in a value is expanded on the compute node."""
    return [f'export {name}="{_escape(value)}"' for name, value in variables.items()]


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("`", "\\`")


def rank_variables(*, rank: int, world_size: int, local_rank: int, address: str, port: int) -> dict[str, str]:
    """What torch.distributed's ``env://`` start reads."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": str(local_rank),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
    }


def clean_variables() -> dict[str, str]:
    """This process's environment without what an outer job or training left behind.

    SLURM_CONF stays: it tells the commands where the controller is. A job submitted from inside another would
    otherwise inherit the outer one's nodes, tasks and memory.
    """
    return {name: value for name, value in os.environ.items() if name == "SLURM_CONF" or not _is_inherited(name)}


def _is_inherited(name: str) -> bool:
    return name.startswith(_OF_AN_OUTER_JOB) or name in _OF_AN_OUTER_TRAINING


@contextmanager
def clean_environment(extra: Mapping[str, str] | None = None) -> Iterator[None]:
    """For the block, this process has its ``clean_variables`` and ``extra``; everything is as before afterwards."""
    before = dict(os.environ)
    cleaned = clean_variables()
    os.environ.clear()
    os.environ.update(cleaned)
    os.environ.update({name: os.path.expandvars(value) for name, value in (extra or {}).items()})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
