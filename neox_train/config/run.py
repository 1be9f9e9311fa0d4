"""The configuration of one run on one cluster, from a pipeline file or from files alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from neox_train.config.cluster import Cluster
from neox_train.config.hardware import require_hardware
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.config.load import resolve_document
from neox_train.config.merge import merge_documents, set_overrides
from neox_train.config.pipeline import Pipeline
from neox_train.config.reader import Document, read_yaml, show_value
from neox_train.config.schema import NeoxConfig
from neox_train.errors import ConfigError


def resolve_run(
    pipeline: Pipeline, name: str, cluster: Cluster, results: Path, *, vocab_size: int | None = None
) -> NeoxConfig:
    """Merge the run's files and overrides for ``nodes x processes_per_node`` processes.

    Keys that name places (data, tokenizer, checkpoints, logs) belong to the run, the number of processes and the
    communication library to the cluster: they are replaced, each with a notice. Raises ConfigError in one sentence,
    also when the cluster's device cannot run the configuration.
    """
    spec = pipeline.run(name)
    for file in spec.config:
        if not Path(file).exists():
            place = pipeline.find_places(f"runs.{name}").get("config", pipeline.file)
            raise ConfigError(f"{place}: runs.{name}.config names {file}, which is not there; correct the path")
    document = merge_documents([read_yaml(file, fold_hyphens=True) for file in spec.config], spec.overrides)
    document = set_overrides(
        document,
        spec.overrides,
        source=f"{pipeline.file}: runs.{name}.overrides",
        places=pipeline.find_places(f"runs.{name}.overrides"),
    )
    own = _own_places(name, spec.dataset, Path(results))
    if document.values.get("finetune") is True:
        # Whose weights to begin with is the file's to say; afterwards the run goes on from its own checkpoints.
        del own["load"]
    document, moved = _replace(document, own, "belongs to the run")
    config = _resolve_on(document, cluster, spec.nodes * cluster.processes_per_node)
    if vocab_size is not None:
        config = config.with_vocab_size(vocab_size)
    return config.with_notices(*moved)


def resolve_files(
    files: Sequence[Path | str], cluster: Cluster, *, nodes: int = 1, overrides: Mapping[str, Any] | None = None
) -> NeoxConfig:
    """Merge files for one training outside a pipeline: their own paths are kept.

    The number of processes and the communication library are the cluster's, with a notice. Raises ConfigError in one
    sentence, also when the cluster's device cannot run the configuration.
    """
    if not files:
        raise ConfigError("no configuration file is given; name at least one YAML file")
    document = merge_documents([read_yaml(file, fold_hyphens=True) for file in files], overrides or ())
    document = set_overrides(document, overrides or {})
    return _resolve_on(document, cluster, nodes * cluster.processes_per_node)


def _resolve_on(document: Document, cluster: Cluster, world_size: int) -> NeoxConfig:
    document, notices = _replace(document, _own_facts(document, cluster, world_size), "comes from the cluster")
    config = resolve_document(document, world_size=world_size)
    require_hardware(config, cluster)
    return _fill_peak(config, cluster).with_notices(*notices)


def _own_places(run: str, dataset: str, results: Path) -> dict[str, Any]:
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


def _own_facts(document: Document, cluster: Cluster, world_size: int) -> dict[str, Any]:
    facts: dict[str, Any] = {"distributed_backend": "nccl" if cluster.device == "cuda" else "gloo"}
    facts.update({key: world_size for key in ("world_size", "global_num_gpus") if key in document.values})
    return facts


def _replace(document: Document, own: dict[str, Any], reason: str) -> tuple[Document, list[str]]:
    values, places, notices = dict(document.values), dict(document.places), []
    for key, new in own.items():
        old = values.get(key)
        if old is not None and old != new:
            place = places.get(key, document.file)
            notices.append(f"{place}: {key} {reason} here: {show_value(old)} -> {show_value(new)}")
        values[key] = new
        places.pop(key, None)
    return Document(document.file, values, places), notices


def _fill_peak(config: NeoxConfig, cluster: Cluster) -> NeoxConfig:
    if config.peak_theoretical_tflops is not None or cluster.device == "cpu" or cluster.gpu is None:
        return config
    peak = getattr(cluster.gpu.peak_tflops, config.precision)
    return config.model_copy(update={"peak_theoretical_tflops": peak})
