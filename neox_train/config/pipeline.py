"""The pipeline file: datasets, runs and their evaluation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PrivateAttr, ValidationError

from neox_train.config.reader import Document, Place, read_yaml
from neox_train.config.records import Record, build_record
from neox_train.errors import ConfigError

SPLITS = ("train", "validation", "test")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


class SourceSpec(Record):
    """Where documents come from: the interpreter's own standard library, or files of text, JSON lines or tables."""

    kind: Literal["python_stdlib", "files"]
    max_bytes: int | None = Field(None, ge=1, description="Stop after this many bytes of text.")
    files: list[str] = Field(
        default_factory=list,
        description="Files, folders and globs, relative to the working directory; a folder may be a saved dataset.",
    )
    format: Literal["auto", "text", "jsonl", "parquet", "arrow"] = "auto"
    text_key: str | list[str] = Field(
        "text", description="Key or column that holds the text; of several each text is a document of its own."
    )
    on_error: Literal["strict", "skip"] = "strict"
    ftfy: bool = Field(False, description="Mend wrongly decoded text with the ftfy library.")

    @property
    def text_keys(self) -> list[str]:
        """The keys as a list."""
        return [self.text_key] if isinstance(self.text_key, str) else self.text_key


class SplitsSpec(Record):
    """Shares of the documents; together 1."""

    train: float = Field(0.96, ge=0, le=1)
    validation: float = Field(0.02, ge=0, le=1)
    test: float = Field(0.02, ge=0, le=1)


class TokenizerSpec(Record):
    """A tokenizer to train, or a tokenizer.json or SentencePiece .model that exists."""

    train: Literal["bpe"] | None = None
    # The library reserves memory for the whole vocabulary and aborts the process where it gets none.
    vocab_size: int | None = Field(None, ge=257, le=2**24)
    file: str | None = None


class DatasetSpec(Record):
    """One dataset."""

    source: SourceSpec
    splits: SplitsSpec = Field(default_factory=SplitsSpec)
    tokenizer: TokenizerSpec
    end_of_document: str = "<|endoftext|>"
    seed: int = 1234
    shards: int = Field(
        1, ge=1, le=99_999, description="Jobs among which the files are divided; more than files is as many."
    )

    def content(self) -> dict[str, Any]:
        """The keys that decide about the tokens, as a dataset's manifest keeps them."""
        return self.model_dump(mode="json", exclude={"shards"})

    def is_of(self, content: dict[str, Any] | None) -> bool:
        """Whether a manifest's entry says the same; keys that came after it was written count at their defaults."""
        try:
            return type(self).model_validate(content).content() == self.content()
        except ValidationError:
            return False


class RunSpec(Record):
    """One run: GPT-NeoX YAML files, a dataset, nodes, and keys laid over the files."""

    config: list[str] = Field(min_length=1)
    dataset: str
    nodes: int = Field(1, ge=1)
    overrides: dict[str, Any] = Field(default_factory=dict)


class EvaluationSpec(Record):
    """What is measured on the exported model."""

    split: Literal["train", "validation", "test"] = "test"
    continuations: int = Field(3, ge=0)
    continuation_tokens: int = Field(64, ge=1)
    max_bytes: int | None = Field(None, ge=1)


class Pipeline(Record):
    """Everything one workflow makes."""

    datasets: dict[str, DatasetSpec] = Field(min_length=1)
    runs: dict[str, RunSpec] = Field(min_length=1)
    evaluation: EvaluationSpec = Field(default_factory=EvaluationSpec)
    _file: str = PrivateAttr(default="the pipeline")
    _places: dict[str, Place] = PrivateAttr(default_factory=dict)

    @property
    def file(self) -> str:
        """The file it was read from; sentences name it."""
        return self._file

    def find_places(self, path: str) -> dict[str, Place]:
        """Places of the values below a dotted path, keyed by the rest of their paths."""
        return {name[len(path) + 1 :]: place for name, place in self._places.items() if name.startswith(path + ".")}

    def dataset(self, name: str) -> DatasetSpec:
        """The dataset ``name``; raises ConfigError naming those there are."""
        return _find(self.datasets, name, "dataset", self.file)

    def run(self, name: str) -> RunSpec:
        """The run ``name``; raises ConfigError naming those there are."""
        return _find(self.runs, name, "run", self.file)


def load_pipeline(path: Path | str) -> Pipeline:
    """Read and check a pipeline file; raises ConfigError with file, line and key."""
    document = read_yaml(path)
    pipeline = build_record(Pipeline, document.values, document.places, where=document.file)
    _check(pipeline, document)
    pipeline._file, pipeline._places = document.file, document.places
    return pipeline


def _check(pipeline: Pipeline, document: Document) -> None:
    for kind, names in (("datasets", pipeline.datasets), ("runs", pipeline.runs)):
        for name in names:
            if not _NAME.match(name):
                raise ConfigError(
                    f"{document.places[f'{kind}.{name}']}: {kind}.{name} is no folder name; "
                    "use letters, digits, dots, dashes and underscores"
                )
    for name, run in pipeline.runs.items():
        if run.dataset not in pipeline.datasets:
            raise ConfigError(
                f"{document.places[f'runs.{name}.dataset']}: runs.{name}.dataset is '{run.dataset}'; the datasets are "
                f"{', '.join(pipeline.datasets)}"
            )
    for name, dataset in pipeline.datasets.items():
        place = document.places[f"datasets.{name}"]
        splits = dataset.splits
        total = splits.train + splits.validation + splits.test
        if abs(total - 1) > 1e-6 or splits.train == 0:
            raise ConfigError(
                f"{place}: datasets.{name}.splits add up to {total:g} with train {splits.train:g}; "
                "shares that add up to 1, train above 0, are wanted"
            )
        if dataset.source.kind == "files" and not dataset.source.files:
            raise ConfigError(f"{place}: datasets.{name}.source.files is empty; list at least one file or glob")
        keys = dataset.source.text_keys
        if not keys or len(set(keys)) < len(keys):
            raise ConfigError(f"{place}: datasets.{name}.source.text_key is {keys}; keys, each named once, are wanted")
        if dataset.shards > 1 and (dataset.source.kind != "files" or dataset.source.max_bytes is not None):
            reason = "source.max_bytes counts" if dataset.source.kind == "files" else "duplicates are found"
            raise ConfigError(
                f"{place}: datasets.{name}.shards is {dataset.shards}, but {reason} over the whole corpus in order; "
                "remove one of the two"
            )
        if (dataset.tokenizer.train is None) == (dataset.tokenizer.file is None):
            raise ConfigError(f"{place}: datasets.{name}.tokenizer wants either train (with vocab_size) or file")
        if dataset.tokenizer.train is not None and dataset.tokenizer.vocab_size is None:
            raise ConfigError(f"{place}: datasets.{name}.tokenizer.vocab_size is missing; set it")


def _find(table: dict[str, Any], name: str, kind: str, file: str) -> Any:
    if name not in table:
        raise ConfigError(f"{file} has no {kind} '{name}'; it has {', '.join(table)}")
    return table[name]
