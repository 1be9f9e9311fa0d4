"""The configuration of one run of a pipeline on one cluster."""

from __future__ import annotations

from pathlib import Path

from neox_train.config.cluster import Cluster
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.config.load import resolve_document
from neox_train.config.merge import merge_documents, set_overrides
from neox_train.config.pipeline import Pipeline
from neox_train.config.reader import Document, read_yaml, show_value
from neox_train.config.schema import NeoxConfig


def resolve_run(
    pipeline: Pipeline, name: str, cluster: Cluster, results: Path, *, vocab_size: int | None = None
) -> NeoxConfig:
    """Merge the run's files and overrides for ``nodes x processes_per_node`` processes.

    Keys that name places (data, tokenizer, checkpoints, logs) belong to the run and are replaced, each with a notice.
    Raises ConfigError in one sentence.
    """
    spec = pipeline.run(name)
    document = merge_documents([read_yaml(file, fold_hyphens=True) for file in spec.config])
    source = f"{pipeline.file or 'the pipeline'}, runs.{name}.overrides"
    document = set_overrides(document, spec.overrides, source=source)
    document, notices = _replace_places(document, _own_places(name, spec.dataset, Path(results)))
    world_size = spec.nodes * cluster.processes_per_node
    document, more = _replace_world(document, world_size)
    config = resolve_document(document, world_size=world_size)
    if vocab_size is not None:
        config = config.with_vocab_size(vocab_size)
    return config.with_notices(*notices, *more)


def _own_places(run: str, dataset: str, results: Path) -> dict[str, str | None]:
    folder, data = RunFolder.of(results, run), DatasetFolder.of(results, dataset)
    return {
        "data_path": str(data.path),
        "tokenizer_type": "HFTokenizer",
        "vocab_file": str(data.tokenizer),
        "merge_file": None,
        "save": str(folder.checkpoints),
        "load": str(folder.checkpoints),
        "log_dir": str(folder.logs),
        "tensorboard_dir": str(folder.tensorboard),
        "hostfile": None,
    }


def _replace_places(document: Document, own: dict[str, str | None]) -> tuple[Document, list[str]]:
    values, places, notices = dict(document.values), dict(document.places), []
    for key, new in own.items():
        old = values.get(key)
        if old is not None and old != new:
            place = places.get(key, document.file)
            notices.append(f"{place}: {key} belongs to the run here: {show_value(old)} -> {show_value(new)}")
        values[key] = new
        places.pop(key, None)
    return Document(document.file, values, places), notices


def _replace_world(document: Document, world_size: int) -> tuple[Document, list[str]]:
    values, notices = dict(document.values), []
    for key in ("world_size", "global_num_gpus"):
        old = values.pop(key, None)
        if old is not None and old != world_size:
            place = document.places.get(key, document.file)
            notices.append(f"{place}: {key} comes from the cluster and the run's nodes: {old} -> {world_size}")
    return Document(document.file, values, document.places), notices
