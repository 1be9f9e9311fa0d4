"""Starts `neox-train submit` on the test cluster as a person does, and waits for what it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neox_train.config.layout import DatasetFolder, RunFolder
from tests.training.synthetic import write_run

STEPS = 40
MODEL: dict[str, Any] = {
    "train_iters": STEPS,
    "lr_decay_iters": STEPS,
    "checkpoint_factor": 10,
    "log_interval": 1,
    "eval_interval": STEPS,
    "hidden_size": 128,
    "train_micro_batch_size_per_gpu": 4,
    "seq_length": 128,
    "max_position_embeddings": 128,
}
FACTS: dict[str, Any] = {
    "name": "lab",
    "executor": "slurm",
    "device": "cpu",
    "gres_style": "none",
    "processes_per_node": 2,
    "cpus_per_process": 1,
    "partition": "h100",
    "memory_per_node": "4G",
    "time_limit_minutes": 60,
    "environment": {"OMP_NUM_THREADS": "1"},
    "max_restarts": 2,
}


@dataclass
class Command:
    """A live `neox-train` command; what it prints goes to a file."""

    process: subprocess.Popen[bytes]
    output: Path

    @property
    def text(self) -> str:
        """What it has printed so far."""
        return self.output.read_text(errors="replace")

    def wait(self, timeout_seconds: float = 240.0) -> int:
        """Its exit code; it is killed when the time is up."""
        try:
            return self.process.wait(timeout=timeout_seconds)
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL to the command alone."""
        self.process.kill()
        self.process.wait()

    def interrupt(self) -> int:
        """Ctrl-C, and its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.wait()

    def wait_until(self, condition: Callable[[], bool], timeout_seconds: float = 180.0) -> None:
        """Return as soon as ``condition`` holds; fails when the command ends or the time is up first."""
        deadline = time.monotonic() + timeout_seconds
        while not condition():
            if self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode}:\n{self.text}")
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"the time is up:\n{self.text}")
            time.sleep(0.05)


@dataclass
class Training:
    """One run of a results folder, and the files that `submit` reads."""

    folder: Path
    dataset: DatasetFolder
    nodes: int = 2
    facts: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)
    name: str = "tiny"

    def __post_init__(self) -> None:
        facts = {**FACTS, **self.facts}
        self.processes = self.nodes * facts["processes_per_node"]
        self.folder.mkdir(parents=True, exist_ok=True)
        write_run(self.run.path, self.dataset, world_size=self.processes, **{**MODEL, **self.changes})
        (self.folder / "cluster.json").write_text(json.dumps(facts))
        pipeline = {
            "datasets": {
                "words": {"source": {"kind": "python_stdlib"}, "tokenizer": {"train": "bpe", "vocab_size": 300}}
            },
            "runs": {self.name: {"config": ["model.yml"], "dataset": "words", "nodes": self.nodes}},
        }
        (self.folder / "pipeline.json").write_text(json.dumps(pipeline))
        self._commands = 0

    @property
    def run(self) -> RunFolder:
        """The run's folder."""
        return RunFolder.of(self.folder / "results", self.name)

    def start(self, *words: str, environment: Mapping[str, str] | None = None) -> Command:
        """Start `neox-train WORDS`, by default `submit` of the run."""
        submit = ("submit", self.name, "--pipeline", "pipeline.json", "--cluster", "cluster.json")
        command = [sys.executable, "-m", "neox_train.cli", *(words or submit), "--results", "results"]
        self._commands += 1
        output = self.folder / f"command-{self._commands}.log"
        with output.open("wb") as stream:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env={**os.environ, "NEOX_TRAIN_POLL_SECONDS": "1", **(environment or {})},
                start_new_session=True,
            )
        return Command(process, output)

    def command(self, *words: str) -> tuple[int, str]:
        """Run `neox-train WORDS` to its end: exit code and what it printed."""
        command = self.start(*words)
        return command.wait(), command.text

    @property
    def attempts(self) -> list[dict[str, Any]]:
        """The ledger's attempts."""
        return list(json.loads(self.run.ledger.read_text())["attempts"]) if self.run.ledger.exists() else []

    @property
    def job_id(self) -> str:
        """The newest attempt's job."""
        return str(self.attempts[-1]["job_id"])

    @property
    def records(self) -> list[dict[str, Any]]:
        """Whole training records of metrics.jsonl."""
        if not self.run.metrics.exists():
            return []
        lines = [line for line in self.run.metrics.read_text().split("\n")[:-1] if line]
        return [record for record in map(json.loads, lines) if record["kind"] == "train"]

    @property
    def losses(self) -> list[tuple[int, float]]:
        """Step and loss, in the file's order and in full precision."""
        return [(record["step"], record["loss"]) for record in self.records]

    def ranks(self, start: int) -> dict[int, dict[str, Any]]:
        """Records of the ranks that have begun the newest job's given start, by rank."""
        if not self.attempts or not self.attempts[-1]["job_id"]:
            return {}
        files = (self.run.path / self.attempts[-1]["folder"]).glob(f"{self.job_id}_*_start{start}_rank.json")
        return {record["rank"]: record for record in (json.loads(file.read_text()) for file in files)}

    def trains(self, start: int, *, attempt: int = 1, steps: int = 3) -> Callable[[], bool]:
        """Whether the given start of the given attempt has made some steps."""

        def condition() -> bool:
            if len(self.attempts) < attempt or len(ranks := self.ranks(start)) < self.processes:
                return False
            began = max(rank["started"] for rank in ranks.values())
            return sum(record["time"] > began for record in self.records) >= steps

        return condition

    def find_resumed(self) -> int | None:
        """The newest job's first start that has gone on from a saved step and trains."""
        starts = (start for start in range(1, 20) if any(rank["step"] for rank in self.ranks(start).values()))
        return next((start for start in starts if self.trains(start)()), None)

    @contextmanager
    def paused(self, start: int) -> Iterator[None]:
        """Hold the ranks of the newest job's given start: what is done meanwhile finds it training, however fast."""
        ranks = [rank["pid"] for rank in self.ranks(start).values()]
        for pid in ranks:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in ranks:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
