"""Starts `neox-train train` as a person does, and waits for what it leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psutil

from neox_train.config.layout import DatasetFolder, RunFolder
from tests.training.synthetic import CASES

STEPS = 30
CHANGES: dict[str, Any] = {
    "train_iters": STEPS,
    "lr_decay_iters": STEPS,
    "checkpoint_factor": 5,
    "log_interval": 1,
    "eval_interval": STEPS,
    "train_micro_batch_size_per_gpu": 8,
    # Wide enough that a step takes long beside a signal's way.
    "hidden_size": 256,
    "num_attention_heads": 4,
    "seq_length": 128,
    "max_position_embeddings": 128,
}


@dataclass
class Launch:
    """A live `neox-train train` and its run."""

    process: subprocess.Popen[str]
    run: RunFolder

    def wait(self, timeout_seconds: float = 240.0) -> tuple[int, str]:
        """Exit code and what it printed; killed when the time is up."""
        try:
            _, text = self.process.communicate(timeout=timeout_seconds)
        finally:
            self.kill()
        return self.process.returncode, text

    def kill(self) -> None:
        """SIGKILL to the launcher alone."""
        self.process.kill()
        self.process.wait()

    def wait_until(self, condition: Callable[[], bool], timeout_seconds: float = 180.0) -> None:
        """Return as soon as ``condition`` holds; fails when the launcher ends or the time is up first."""
        deadline = time.monotonic() + timeout_seconds
        while not condition():
            if self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode}: {self.process.communicate()[1]}")
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError("the time is up")
            time.sleep(0.02)


def start_training(
    run: RunFolder, dataset: DatasetFolder, facts: Mapping[str, Any] | None = None, **changes: Any
) -> Launch:
    """Train the tiny model of the cases with 2 processes, or as ``facts`` of the cluster say."""
    files = [str(CASES / "base.yml"), str(CASES / "optimizer.yml")]
    overrides = {**CHANGES, "data_path": str(dataset.path), **changes}
    cluster = run.path.parent / "cluster.json"
    run.path.mkdir(parents=True, exist_ok=True)
    known = {"name": "here", "processes_per_node": 2, "cpus_per_process": 1, "max_restarts": 2}
    cluster.write_text(json.dumps({**known, **(facts or {})}))
    command = [sys.executable, "-m", "neox_train.cli", "train", *files, "--cluster", str(cluster)]
    command += ["--run-dir", str(run.path)]
    for key, value in overrides.items():
        command += ["--override", f"{key}={json.dumps(value)}"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    return Launch(process, run)


def steps_logged(run: RunFolder) -> list[int]:
    """Steps of the training records, in the file's order."""
    return [record["step"] for record in records(run)]


def final_loss(run: RunFolder) -> float:
    """Loss of the last step, in full precision."""
    return float(records(run)[-1]["loss"])


def records(run: RunFolder) -> list[dict[str, Any]]:
    """Whole training records of metrics.jsonl."""
    if not run.metrics.exists():
        return []
    lines = [line for line in run.metrics.read_text().split("\n")[:-1] if line]
    return [record for record in map(json.loads, lines) if record["kind"] == "train"]


def reached(run: RunFolder, step: int, attempt: int = 1) -> Callable[[], bool]:
    """Whether the run's given attempt has logged ``step``."""

    def condition() -> bool:
        if not run.ledger.exists() or len(attempts(run)) < attempt:
            return False
        since = attempts(run)[attempt - 1]["submitted"]
        return any(record["step"] >= step and record["time"] >= since for record in records(run))

    return condition


def attempts(run: RunFolder) -> list[dict[str, Any]]:
    """The ledger's attempts."""
    content = json.loads(run.ledger.read_text())
    return list(content["attempts"])


def rank_processes(run: RunFolder) -> dict[int, int]:
    """Process ids of the newest attempt's ranks that have started, by rank."""
    last = attempts(run)[-1]
    files = (run.path / last["folder"]).glob(f"{last['job_id']}_*_rank.json")
    ranks = [json.loads(file.read_text()) for file in files]
    return {rank["rank"]: rank["pid"] for rank in ranks}


def gone(pid: int) -> bool:
    """Whether a process has ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
