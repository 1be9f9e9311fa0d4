"""What a process finds on the node it runs on: host, software, cores, GPUs, folders. Torch only where it is there."""

from __future__ import annotations

import hashlib
import importlib
import os
import platform
import socket
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import psutil

import neox_train
from neox_train.config.cluster import Cluster
from neox_train.files import free_bytes
from neox_train.monitoring.hardware import list_gpus
from neox_train.monitoring.provenance import package_versions

_GIB = 2**30


def collect_facts(cluster: Cluster, results: Path, *, only_gpu: int | None = None) -> dict[str, Any]:
    """Facts of this process as a JSON-able dict; what cannot be read is a sentence under ``error``.

    With ``only_gpu`` no other GPU is touched: looking at one takes some of its memory until the process ends.
    """
    return {
        "host": os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
        "address": _own_address(),
        **describe_software(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / _GIB, 1),
        "driver_gpus": list_gpus() if cluster.device == "cuda" else [],
        "torch": describe_torch(cluster, only_gpu),
        "results": _try_folder(results),
        "scratch": _try_folder(Path(expand_in_shell(cluster.node_local_scratch or "${TMPDIR:-/tmp}"))),
    }


def describe_software() -> dict[str, Any]:
    """Interpreter, package versions and a digest of this package: what both sides must share."""
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "packages": package_versions(),
        "code": digest_code(),
    }


def digest_code() -> str:
    """SHA-256 over this package's source files: equal where the same code is installed."""
    root = Path(neox_train.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(file.relative_to(root).as_posix().encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def describe_torch(cluster: Cluster, only_gpu: int | None = None) -> dict[str, Any]:
    """Version, CUDA build, number of visible GPUs and facts of each (GiB); ``error`` where torch does not load."""
    try:
        torch = importlib.import_module("torch")
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    facts: dict[str, Any] = {"version": str(torch.__version__), "cuda": torch.version.cuda, "devices": []}
    if cluster.device == "cuda":
        try:
            facts["available"] = bool(torch.cuda.is_available())
            facts["device_count"] = torch.cuda.device_count()
            facts["devices"] = [
                _describe_device(torch, index)
                for index in range(facts["device_count"])
                if only_gpu is None or index == only_gpu % facts["device_count"]
            ]
        except Exception as error:
            facts["error"] = f"{type(error).__name__}: {error}"
    return facts


def has_device(facts: dict[str, Any], cluster: Cluster) -> bool:
    """Whether torch loads and has the device that the profile trains on."""
    torch = facts["torch"]
    return "version" in torch and (cluster.device == "cpu" or bool(torch.get("devices")))


def _describe_device(torch: Any, index: int) -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(index)
    free, total = torch.cuda.mem_get_info(index)
    return {
        "name": properties.name,
        "memory_gib": round(total / _GIB, 2),
        "free_gib": round(free / _GIB, 2),
        "capability": float(f"{properties.major}.{properties.minor}"),
    }


def _own_address() -> str:
    """IPv4 address of this host's name, or why there is none."""
    try:
        return str(socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        return f"does not resolve ({error})"


def _try_folder(folder: Path) -> dict[str, Any]:
    probe = folder / f".doctor-{uuid.uuid4().hex[:8]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"neox-train doctor\n")
        probe.unlink()
    except OSError as error:
        return {"path": str(folder), "error": error.strerror or str(error)}
    return {"path": str(folder), "free_bytes": free_bytes(folder)}


def expand_in_shell(text: str) -> str:
    """A text with ``$NAME`` and ``${NAME:-default}`` expanded, as the batch script does."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("`", "\\`")
    answer = subprocess.run(
        ["sh", "-c", f'printf %s "{quoted}"'], capture_output=True, text=True, timeout=20, check=True
    )
    return answer.stdout
