"""Where a run and a dataset keep their files: the one place that knows the names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FAILURE_NAME = "failure.json"
"""Why the last stage in a folder failed."""
STOPPED = "stopped"
"""Its ``outcome`` where a signal asked for the end: nothing failed."""
STAGE_NAME = "stage.json"
"""The stage that works in a folder now."""


def cluster_file(results: Path, profile: str) -> Path:
    """The facts that a workflow's stages read: one file a profile, as two controllers may share a results folder."""
    return results / f"cluster-{re.sub(r'[^A-Za-z0-9_.-]', '_', profile)}.json"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one run, under ``results/runs/<run>``."""

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))

    @classmethod
    def of(cls, results: Path | str, run: str) -> RunFolder:
        """Folder of the run named ``run`` under a results folder."""
        return cls(Path(results) / "runs" / run)

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.path.name

    @property
    def training_command(self) -> str:
        """How a person trains it, for sentences: with a pipeline, or by hand."""
        return f"`neox-train submit {self.name}` (or the `neox-train train` that began it)"

    @property
    def config_file(self) -> Path:
        """Every key resolved; enough to repeat the run."""
        return self.path / "config.yml"

    @property
    def provenance(self) -> Path:
        """Commit, package versions, host, seeds, hashes."""
        return self.path / "provenance.json"

    @property
    def memory_json(self) -> Path:
        """The memory estimate."""
        return self.path / "memory.json"

    @property
    def memory_png(self) -> Path:
        """The memory estimate, drawn."""
        return self.path / "memory.png"

    @property
    def estimated(self) -> Path:
        """Marker of the estimate stage, written last."""
        return self.path / "estimated.json"

    @property
    def ledger(self) -> Path:
        """Jobs submitted for the run, and why each ended."""
        return self.path / "job.json"

    @property
    def checkpoints(self) -> Path:
        """Folder of the step folders."""
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        """One JSON object a line: the source of every curve."""
        return self.path / "metrics.jsonl"

    @property
    def logs(self) -> Path:
        """Folder of the log files."""
        return self.path / "logs"

    @property
    def tensorboard(self) -> Path:
        """Folder of TensorBoard's event files."""
        return self.path / "tensorboard"

    @property
    def finished(self) -> Path:
        """The trainer's own completion record (rank 0)."""
        return self.path / "finished.json"

    @property
    def trained(self) -> Path:
        """Marker of the training stage, written last."""
        return self.path / "trained.json"

    @property
    def hf(self) -> Path:
        """The exported Hugging Face model."""
        return self.path / "hf"

    @property
    def parity(self) -> Path:
        """Logits of the trained model against the export."""
        return self.path / "parity.json"

    @property
    def converted(self) -> Path:
        """Marker of the convert stage, written last."""
        return self.path / "converted.json"

    @property
    def evaluation(self) -> Path:
        """Scores; marker of the evaluate stage, written last."""
        return self.path / "evaluation.json"

    @property
    def evaluation_parts(self) -> Path:
        """Folder of finished parts of an evaluation."""
        return self.path / "evaluation_parts"

    @property
    def failure(self) -> Path:
        """Why the last stage of the run failed; absent when none did."""
        return self.path / FAILURE_NAME

    @property
    def lock(self) -> Path:
        """Lock file that one live process holds."""
        return self.path / ".lock"


PLAN = "plan"
"""Name of the part of a dataset's stage that divides the files; the others are numbers."""


@dataclass(frozen=True, slots=True)
class DatasetFolder:
    """The files of one dataset, under ``results/datasets/<dataset>``."""

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))

    @classmethod
    def of(cls, results: Path | str, dataset: str) -> DatasetFolder:
        """Folder of the dataset named ``dataset`` under a results folder."""
        return cls(Path(results) / "datasets" / dataset)

    @property
    def name(self) -> str:
        """Name of the dataset."""
        return self.path.name

    @property
    def tokenizer(self) -> Path:
        """The tokenizer, in the Hugging Face ``tokenizers`` format."""
        return self.path / "tokenizer.json"

    @property
    def sentencepiece(self) -> Path:
        """The SentencePiece model that encoded the dataset; absent where the tokenizer is no such model."""
        return self.path / "tokenizer.model"

    @property
    def manifest(self) -> Path:
        """Shard order, counts, checksums, provenance; written after the files it tells of."""
        return self.path / "manifest.json"

    @property
    def tokenized(self) -> Path:
        """Marker of the tokenize stage, written last."""
        return self.path / "tokenized.json"

    @property
    def failure(self) -> Path:
        """Why the last stage on the dataset failed; absent when none did."""
        return self.path / FAILURE_NAME

    @property
    def lock(self) -> Path:
        """Lock file that one live process holds."""
        return self.path / ".lock"

    def shard(self, split: str, index: int) -> Path:
        """HDF5 file of one shard of a split."""
        return self.path / f"tokens-{split}-{index:05d}.h5"

    def part(self, name: str) -> DatasetFolder:
        """Where a job of a divided tokenize stage keeps its marker, lock and log: the plan's, or a shard's."""
        return DatasetFolder(self.path / "shards" / name)

    def generation(self, key: str) -> DatasetFolder:
        """The tokens made by one plan; a later plan's go beside them until they are complete."""
        return DatasetFolder(self.path / f"tokens-{key}")


def shard_name(index: int) -> str:
    """Folder name of a shard."""
    return f"{index:05d}"
