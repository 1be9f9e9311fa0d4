"""Where a run comes from: code, packages, machine, seeds and digests, written to ``provenance.json``."""

from __future__ import annotations

import importlib.metadata
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import neox_train
from neox_train.config.layout import RunFolder
from neox_train.data.identity import identify_data, is_data_there
from neox_train.files import find_record, write_json
from neox_train.monitoring.hardware import describe_host

if TYPE_CHECKING:
    from neox_train.config.cluster import Cluster
    from neox_train.config.schema import NeoxConfig

PACKAGES = (
    "neox-train",
    "torch",
    "deepspeed",
    "transformers",
    "tokenizers",
    "safetensors",
    "numpy",
    "h5py",
    "submitit",
    "snakemake",
    "snakemake-executor-plugin-slurm",
    "transformer-engine",
    "bitsandbytes",
)
"""Distributions whose versions decide what a run computes or how it is launched."""


_GATE_KEYS = ("verdict", "forced", "total_bytes", "budget_bytes")


def write_provenance(
    run: RunFolder,
    config: NeoxConfig,
    cluster: Cluster,
    *,
    command: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Write ``provenance.json`` for the attempt that starts now; short records of earlier attempts are kept in it."""
    before = find_record(run.provenance)
    record = collect_provenance(config, cluster, command=command)
    record["earlier_attempts"] = _earlier_attempts(before)
    gate = find_record(run.estimated)
    record["memory_gate"] = {key: gate.get(key) for key in _GATE_KEYS} if gate else None
    write_json(run.provenance, record)
    return record


def collect_provenance(
    config: NeoxConfig,
    cluster: Cluster,
    *,
    command: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Everything needed to say which code, data, seeds and machine made a run, as a JSON-able dict.

    ``command`` defaults to this process's command line; ``git`` is None where the package is not in a git checkout.
    """
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(command if command is not None else [Path(sys.argv[0]).name, *sys.argv[1:]]),
        "git": describe_git(Path(neox_train.__file__).parent),
        "python": platform.python_version(),
        "packages": package_versions(),
        "machine": describe_host(),
        "profile": {"name": cluster.name, "executor": cluster.executor, "device": cluster.device},
        "seeds": {"model_and_data": config.seed},
        "digests": {"config": config.training_digest(), **_dataset_digests(config)},
    }


def package_versions() -> dict[str, str]:
    """Installed versions of PACKAGES; those not installed are left out."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def describe_git(folder: Path) -> dict[str, Any] | None:
    """Commit, branch and dirty flag of the git checkout that tracks ``folder``; None where there is none.

    Dirty means: a tracked file differs from the commit, or a file that git does not ignore is untracked.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None or not _git(folder, "ls-files", "--", "."):
        return None
    changes = _git(folder, "status", "--porcelain", "--untracked-files=normal")
    return {
        "commit": commit,
        "branch": _git(folder, "rev-parse", "--abbrev-ref", "HEAD"),
        "dirty": bool(changes),
        "changed_files": len(changes.splitlines()) if changes else 0,
    }


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def _dataset_digests(config: NeoxConfig) -> dict[str, str | None]:
    if not is_data_there(config):
        return {"dataset": None, "tokenizer": None}
    return {**identify_data(config)}


def _earlier_attempts(before: Any) -> list[dict[str, Any]]:
    if not isinstance(before, dict):
        return []
    git = before.get("git") or {}
    last = {
        "time": before.get("time"),
        "host": (before.get("machine") or {}).get("host"),
        "commit": git.get("commit"),
        "dirty": git.get("dirty"),
        "config": (before.get("digests") or {}).get("config"),
    }
    return [*(before.get("earlier_attempts") or []), last]
