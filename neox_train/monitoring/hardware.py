"""What a machine is: operating system, processor, memory and GPUs, read without torch."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import psutil

_GIB = 2**30


def describe_host() -> dict[str, Any]:
    """Name, operating system, processor, usable cores, memory in GiB and GPUs of this machine."""
    return {
        "host": platform.node(),
        "os": _operating_system(),
        "kernel": f"{platform.system()} {platform.release()}",
        "cpu": _processor_name(),
        "cpu_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / _GIB, 2),
        "gpus": list_gpus(),
    }


def list_gpus() -> list[dict[str, str]]:
    """Name, memory and driver of each GPU that ``nvidia-smi`` shows; empty where there is none."""
    if shutil.which("nvidia-smi") is None:
        return []
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return parse_gpu_lines(answer.stdout) if answer.returncode == 0 else []


def parse_gpu_lines(text: str) -> list[dict[str, str]]:
    """Read ``nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader`` output."""
    gpus = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 3:
            gpus.append({"name": fields[0], "memory": fields[1], "driver": fields[2]})
    return gpus


def _operating_system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "cpu model"):
            return value.strip()
    return platform.processor() or platform.machine()
