"""A copy of the workflow with a corpus and a pipeline small enough for a test, and the real Snakemake in it."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from neox_train.config.layout import DatasetFolder, RunFolder

REPOSITORY = Path(__file__).resolve().parents[2]
STEPS = 20
WORDS = [
    "the",
    "a",
    "one",
    "some",
    "model",
    "token",
    "layer",
    "batch",
    "reads",
    "writes",
    "keeps",
    "finds",
    "old",
    "new",
    "small",
    "large",
    "and",
    "or",
    "then",
]

MODEL = f"""
{{
  "num_layers": 2, "hidden_size": 192, "num_attention_heads": 4,
  "seq_length": 128, "max_position_embeddings": 128, "pos_emb": "rotary", "rotary_pct": 0.25,
  "precision": "fp32", "distributed_backend": "gloo", "zero_optimization": {{"stage": 1}},
  "optimizer": {{"type": "Adam", "params": {{"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8}}}},
  "min_lr": 1e-4, "lr_decay_style": "cosine", "lr_decay_iters": {STEPS}, "warmup": 0.1,
  "weight_decay": 0.1, "gradient_clipping": 1.0, "make_vocab_size_divisible_by": 64,
  "train_micro_batch_size_per_gpu": 8, "train_iters": {STEPS}, "checkpoint_factor": 4,
  "eval_interval": {STEPS}, "eval_iters": 1, "log_interval": 1,
}}
"""

PIPELINE = """
datasets:
  words:
    source: {kind: files, files: ["corpus/*.txt"], format: text}
    splits: {train: 0.8, validation: 0.1, test: 0.1}
    tokenizer: {train: bpe, vocab_size: 300}
runs:
  serial:
    config: [model.yml]
    dataset: words
  parallel:
    config: [model.yml, parallel.yml]
    dataset: words
evaluation: {split: test, continuations: 1, continuation_tokens: 8}
"""


@dataclass
class WorkingCopy:
    """One folder in which `snakemake` is started."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> WorkingCopy:
        """Copy the workflow and write corpus, model and pipeline."""
        for name in ("workflow", "rules", "cluster_profiles", "configs"):
            shutil.copytree(REPOSITORY / name, folder / name)
        write_corpus(folder / "corpus")
        (folder / "model.yml").write_text(MODEL)
        (folder / "parallel.yml").write_text('{"gpt_j_residual": true}\n')
        (folder / "pipeline.yaml").write_text(PIPELINE)
        return cls(folder)

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def run(self, name: str) -> RunFolder:
        return RunFolder.of(self.results, name)

    def dataset(self, name: str = "words") -> DatasetFolder:
        return DatasetFolder.of(self.results, name)

    def start(self, *arguments: str, profile: str | None = "cluster_profiles/local") -> Snakemake:
        """Start Snakemake; its own process group, so that a test's signals reach nothing else."""
        command = [sys.executable, "-m", "snakemake", *(["--profile", profile] if profile else ["--cores", "1"])]
        process = subprocess.Popen(
            [*command, "--config", "pipeline=pipeline.yaml", "--", *(arguments or ("train_all",))],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPOSITORY)},
            start_new_session=True,
        )
        return Snakemake(process)

    def snakemake(self, *arguments: str, profile: str | None = "cluster_profiles/local") -> tuple[int, str]:
        """Run Snakemake to its end: exit code and all it printed."""
        return self.start(*arguments, profile=profile).wait()

    def planned_jobs(self) -> dict[str, int]:
        """Jobs by rule that Snakemake would run now."""
        table = re.search(r"^-+ +-+$(.*?)^total", self.dry_run(), re.MULTILINE | re.DOTALL)
        rows = re.findall(r"^(\w+) +(\d+)$", table.group(1), re.MULTILINE) if table else []
        return {rule: int(count) for rule, count in rows if rule != "train_all"}

    def dry_run(self, target: str = "train_all") -> str:
        """What Snakemake prints of what it would do now for ``target``."""
        command = [sys.executable, "-m", "snakemake", "--profile", "cluster_profiles/local", "--dry-run"]
        result = subprocess.run(
            [*command, "--config", "pipeline=pipeline.yaml", "--", target],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout + result.stderr


@dataclass
class Snakemake:
    """A live Snakemake."""

    process: subprocess.Popen[str]

    def wait(self, timeout_seconds: float = 400.0) -> tuple[int, str]:
        """Exit code and output; the whole process group is killed when the time is up."""
        try:
            text, _ = self.process.communicate(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise
        return self.process.returncode, text

    def wait_until(self, condition: Callable[[], bool], timeout_seconds: float = 300.0) -> None:
        """Return as soon as ``condition`` holds; fails when Snakemake ends or the time is up first."""
        deadline = time.monotonic() + timeout_seconds
        while not condition():
            if self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode}: {self.process.communicate()[0]}")
            if time.monotonic() > deadline:
                os.killpg(self.process.pid, signal.SIGKILL)
                raise AssertionError("the time is up")
            time.sleep(0.02)

    def stage_process(self, stage: str) -> psutil.Process:
        """The process of a stage's command."""
        for process in psutil.Process(self.process.pid).children(recursive=True):
            if process.cmdline()[1:4] == ["-m", "neox_train.cli", stage]:
                return process
        raise AssertionError(f"no {stage} is running")


def write_corpus(folder: Path) -> None:
    """Forty text files of sentences from a small grammar: the same on every machine."""
    folder.mkdir()
    choice = random.Random(11)
    for number in range(40):
        lines = [" ".join(choice.choices(WORDS, k=choice.randint(6, 12))) + "." for _ in range(120)]
        (folder / f"text-{number:02}.txt").write_text("\n".join(lines) + "\n")


def training_records(run: RunFolder) -> list[dict[str, Any]]:
    """Whole training records of metrics.jsonl, in the file's order."""
    if not run.metrics.exists():
        return []
    lines = [line for line in run.metrics.read_text().split("\n")[:-1] if line]
    return [record for record in map(json.loads, lines) if record["kind"] == "train"]


def modification_times(folder: Path) -> dict[str, int]:
    """When each file below ``folder`` was last written, in ns; locks and logs of stages left out."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".log", ".lock"))
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in files}
