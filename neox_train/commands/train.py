"""``neox-train train``: one training from GPT-NeoX YAML files, without the workflow."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neox_train.commands.by_hand import LOCAL, find_cluster_file, find_run_folder, note_export, with_processes
from neox_train.commands.stage import stage

if TYPE_CHECKING:
    from neox_train.config.cluster import Cluster
    from neox_train.config.layout import RunFolder
    from neox_train.config.schema import NeoxConfig


def register(app: typer.Typer) -> None:
    """Add ``train``."""
    app.command("train")(train)


def train(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="GPT-NeoX YAML files; a key has one value in all of them, --override lays another over it."
        ),
    ],
    run_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the run; default: the files' `save`, or the one above where that ends in /checkpoints."
        ),
    ] = None,
    processes: Annotated[int | None, typer.Option(help="Training processes on this machine.", min=1)] = None,
    cluster: Annotated[Path | None, typer.Option(help=f"Cluster file; default {LOCAL} where it exists.")] = None,
    override: Annotated[list[str] | None, typer.Option(help="KEY=VALUE laid over the files; may be repeated.")] = None,
    allow_change: Annotated[
        list[str] | None, typer.Option(help="Key that a resumed run may change all the same; may be repeated.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Train although a rank's memory, or the machine's, does not suffice.")
    ] = False,
) -> None:
    """Train one configuration on this machine: data_path names a dataset folder or .bin/.idx files.

    The same command continues an interrupted training from its newest complete checkpoint.
    """
    from neox_train.cluster.environment import allow_changes
    from neox_train.cluster.submission import accept_config, train_run
    from neox_train.config.merge import parse_override
    from neox_train.config.run import resolve_files
    from neox_train.config.support import require_trainable
    from neox_train.data.vocabulary import find_vocab_size, list_unread

    allow_changes(allow_change or [])
    facts = _local_cluster(cluster, processes)
    overrides: dict[str, Any] = dict(parse_override(text) for text in override or [])
    config = resolve_files(files, facts, overrides=overrides)
    folder = find_run_folder(run_dir, config.save)
    vocab_size = find_vocab_size(config)
    own = {
        "save": config.save or str(folder.checkpoints),
        "load": config.load or config.save or str(folder.checkpoints),
    }
    config = resolve_files(files, facts, overrides={**overrides, **own})
    for sentence in [*config.notices, *list_unread(config), *_tell_crowding(facts)]:
        typer.echo(f"note: {sentence}", err=True)
    command = _same_command(files, folder, processes, cluster, override or [], force)
    # While the files and lines that the keys were written on are known; a refusal leaves the run's folder as it is.
    require_trainable(config, facts)
    config = config.with_vocab_size(vocab_size)
    for sentence in note_export(config):
        typer.echo(f"note: {sentence}", err=True)
    _check_memory(config, facts, f"run {folder.name}", force)
    accept_config(folder, facts, 1, config)
    with stage("train", folder.path, subject=f"run {folder.name}", command=command):
        train_run(folder, facts, 1, config=config)


def _tell_crowding(facts: Cluster) -> list[str]:
    """What to know where more CPU processes start than the machine has cores."""
    cores = os.cpu_count() or 1
    if facts.device == "cuda" or facts.processes_per_node <= cores:
        return []
    return [
        f"{facts.processes_per_node} processes share {cores} cores, and a step ends with the slowest; "
        "--processes gives another number"
    ]


def _same_command(
    files: list[Path], folder: RunFolder, processes: int | None, cluster: Path | None, override: list[str], force: bool
) -> str:
    words = ["neox-train", "train", *map(str, files), "--run-dir", str(folder.path)]
    words += ["--processes", str(processes)] if processes else []
    words += ["--cluster", str(cluster)] if cluster else []
    words += ["--force"] if force else []
    return shlex.join([*words, *(word for text in override for word in ("--override", text))])


def _local_cluster(file: Path | None, processes: int | None) -> Cluster:
    """The cluster file's facts with the local executor; without a file, CPU processes of one thread."""
    from neox_train.config.cluster import Cluster, load_cluster

    found = find_cluster_file(file)
    facts = load_cluster(found) if found else Cluster()
    return with_processes(facts, processes).model_copy(update={"executor": "local"})


def _check_memory(config: NeoxConfig, facts: Cluster, subject: str, force: bool) -> None:
    """The gate of ``neox-train estimate``: a rank against what the cluster file, or else this machine, gives it."""
    from neox_train.memory.calibration import read_calibration
    from neox_train.memory.estimate import estimate_memory
    from neox_train.memory.machine import read_machine
    from neox_train.memory.stage import require_passed

    machine = read_machine()
    if facts.memory_budget_gib is None and (facts.device == "cuda" or machine is None):
        return
    estimated = estimate_memory(config, facts, read_calibration(facts.results_path, facts.name), machine)
    require_passed(estimated, subject=subject, force=force)
    typer.echo(f"memory: {estimated.sentence}", err=True)
    if estimated.machine is not None and (short := estimated.machine.word()):
        typer.echo(f"note: {short}", err=True)
