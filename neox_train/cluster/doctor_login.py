"""Login-side checks without Slurm: software, folders, and what the profile's environment pins."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import shlex
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import yaml

from neox_train.cluster.check import Check, fail, passed, skip, warn
from neox_train.config.cluster import Cluster, expand_path
from neox_train.errors import ConfigError, StorageError, install_extra
from neox_train.files import free_bytes, make_folder, storage_errors

_PLUGIN = "snakemake-executor-plugin-slurm"
_LEAST_FREE_BYTES = 50e9

PINNED = {
    "NCCL_ALGO": "NCCL has no fall-back when it is pinned",
    "NCCL_PROTO": "forced where it is not supported it can corrupt data",
    "NCCL_NVLS_ENABLE": "the default fits the hardware; 0 is a diagnostic",
    "NCCL_IB_TIMEOUT": "raise it only with evidence",
    "NCCL_IB_GID_INDEX": "NCCL finds it; RoCE sites only",
    "NVTE_FLASH_ATTN": "Transformer Engine chooses by hardware",
    "NVTE_FUSED_ATTN": "Transformer Engine chooses by hardware",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "the default ends a hanging rank",
    "CUDA_LAUNCH_BLOCKING": "a diagnostic that slows every kernel",
}
"""Variables that a profile should leave alone, with the reason."""


def check_login(cluster: Cluster, snakemake_profile: Path | None) -> list[Check]:
    """Software, folders and environment, in the order of the table."""
    checks = [passed("Python", f"{platform.python_version()} at {sys.executable}"), _check_snakemake()]
    if cluster.executor == "slurm":
        checks += [_check_plugin(), _check_profile(snakemake_profile), _check_python(cluster)]
    checks += check_folders(cluster)
    return [*checks, *check_environment(cluster)]


def _check_snakemake() -> Check:
    version = _version("snakemake")
    if version is None:
        return fail("Snakemake", "not installed", "pip install 'snakemake>=9.10,<10'")
    return passed("Snakemake", version)


def _check_plugin() -> Check:
    version = _version(_PLUGIN)
    if version is None:
        return fail("Slurm plugin", f"{_PLUGIN} is not installed", install_extra("slurm"))
    numbers = [int(part) for part in re.findall(r"\d+", version)[:2]]
    if not [2, 8] <= numbers < [3]:
        return fail("Slurm plugin", f"{version}; 2.8 or newer 2.x is wanted", install_extra("slurm"))
    return passed("Slurm plugin", version)


def _check_profile(file: Path | None) -> Check:
    if file is None or not file.is_file():
        return warn("Snakemake profile", "no config.yaml beside cluster.yaml", "copy one from cluster_profiles/h100")
    options = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    wrong = [key for key, wanted in (("executor", "slurm"), ("nolock", True)) if options.get(key) != wanted]
    if "config" in options:
        return fail(
            "Snakemake profile", f"{file} has a config: block", "use configfile: cluster.yaml, or --config drops it"
        )
    if wrong:
        return warn("Snakemake profile", f"{file}: {' and '.join(wrong)}", "compare with cluster_profiles/h100")
    return passed("Snakemake profile", str(file))


def _check_python(cluster: Cluster) -> Check:
    if cluster.python is None:
        return passed("compute-side Python", f"{sys.executable}, the one that runs here; the job tries it")
    words = shlex.split(cluster.python)
    images = [word for word in words if word.endswith((".sif", ".sqsh", ".img"))]
    missing = [image for image in images if not Path(image).exists()]
    if missing:
        return fail("compute-side Python", f"{missing[0]} does not exist", "mend python: in cluster.yaml")
    if "/" in words[0] and not Path(words[0]).exists():
        return warn(
            "compute-side Python", f"{words[0]} is not here", "fine when it exists on the nodes; the job tries it"
        )
    return passed("compute-side Python", f"{cluster.python}; the job tries it")


def check_folders(cluster: Cluster) -> list[Check]:
    """Results and cache: written to, free bytes, quota, purge."""
    checks = []
    for key, text in (("results", cluster.results), ("cache", cluster.cache)):
        if text:
            checks.append(_check_folder(key, text))
    if cluster.results_purge_days is not None:
        found = f"files of results: are deleted after {cluster.results_purge_days} days"
        checks.append(
            warn("purge", found, "copy what you keep; touch nothing else, a touched file may still be deleted")
        )
    return [*checks, _check_quota()]


def _check_folder(key: str, text: str) -> Check:
    try:
        folder = make_folder(expand_path(text))
        probe = folder / f".doctor-{uuid.uuid4().hex[:8]}"
        with storage_errors(folder):
            probe.write_bytes(b"neox-train doctor\n")
            probe.unlink()
    except (ConfigError, StorageError) as error:
        return fail(key, str(error), f"set {key}: to a folder you may write")
    free = free_bytes(folder)
    found = f"{folder.absolute()} is writable, {free} bytes free ({free / 1e9:.0f} GB)"
    if free < _LEAST_FREE_BYTES:
        return warn(key, found, "a 1B model's checkpoint is about 14 GB, a 7B one 100 GB; make room or move it")
    return passed(key, found)


def _check_quota() -> Check:
    if shutil.which("quota") is None:
        return skip("quota", "no `quota` command here; the site's own tool shows it")
    try:
        answer = subprocess.run(["quota", "-s"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return skip("quota", str(error))
    lines = [" ".join(line.split()) for line in answer.stdout.splitlines() if line.strip()]
    if answer.returncode != 0:
        return warn("quota", "; ".join(lines) or "over a limit", "make room before a run writes")
    return passed("quota", "; ".join(lines[1:]) or "none set")


def check_environment(cluster: Cluster) -> list[Check]:
    """Variables of the profile that its hardware's own choice should stand for."""
    pinned = [f"{name} ({PINNED[name]})" for name in cluster.environment if name in PINNED]
    if pinned:
        return [warn("environment", f"pins {', '.join(pinned)}", "remove what no measurement asks for")]
    return [passed("environment", f"{len(cluster.environment)} variables, none pinned that NCCL chooses better")]


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
