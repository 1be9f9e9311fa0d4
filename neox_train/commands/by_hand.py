"""A training named by its GPT-NeoX files alone, without a pipeline: its folder, its machine, its vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from neox_train.config.layout import RunFolder
from neox_train.errors import ConfigError

if TYPE_CHECKING:
    from neox_train.config.cluster import Cluster
    from neox_train.config.schema import NeoxConfig

LOCAL = Path("cluster_profiles/local/cluster.yaml")
DEFAULT_VOCABULARY = 50_257
"""GPT-2's, which GPT-NeoX takes where nothing else is said."""


def find_run_folder(run_dir: Path | None, save: str | None) -> RunFolder:
    """``run_dir``, else the files' ``save``, or the folder above where that is named checkpoints.

    Raises ConfigError without either.
    """
    if run_dir is not None:
        return RunFolder(run_dir)
    if not save:
        raise ConfigError("the files set no `save`; set it, or give the run's folder with --run-dir")
    path = Path(save)
    return RunFolder(path.parent if path.name == "checkpoints" else path)


def find_cluster_file(file: Path | None) -> Path | None:
    """The cluster file that is given, else the local profile's where it is."""
    return LOCAL if file is None and LOCAL.is_file() else file


def with_processes(cluster: Cluster, processes: int | None) -> Cluster:
    """The same facts with so many processes a node; unchanged without a number."""
    return cluster.model_copy(update={"processes_per_node": processes}) if processes else cluster


def assume_vocabulary(config: NeoxConfig, vocab_size: int | None) -> tuple[NeoxConfig, list[str]]:
    """The configuration with a vocabulary, and what was assumed in one sentence.

    ``vocab_size`` comes first, then the files' own, then that of their data where they are there, then GPT-2's.
    """
    from neox_train.data.identity import is_data_there
    from neox_train.data.vocabulary import find_vocab_size

    if vocab_size is not None:
        return config.with_vocab_size(vocab_size), []
    if config.vocab_size is not None:
        return config, []
    if is_data_there(config):
        return config.with_vocab_size(find_vocab_size(config)), []
    assumed = f"a vocabulary of {DEFAULT_VOCABULARY:,} tokens is assumed (GPT-2's); --vocab-size gives another"
    return config.with_vocab_size(DEFAULT_VOCABULARY), [assumed]


def note_export(config: NeoxConfig) -> list[str]:
    """What the convert stage would say only after the training."""
    from neox_train.checkpoint.hf_config import choose_family
    from neox_train.config.architecture import Architecture
    from neox_train.errors import NotBuiltError

    try:
        choose_family(Architecture.from_config(config))
    except NotBuiltError as error:
        return [f"the run trains, but convert will refuse it: {error}"]
    return []
