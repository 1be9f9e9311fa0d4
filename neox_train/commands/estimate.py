"""``neox-train estimate``: what a run needs of each process's memory, before anything is queued."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from neox_train.commands.by_hand import (
    DEFAULT_VOCABULARY,
    LOCAL,
    assume_vocabulary,
    find_cluster_file,
    note_export,
    with_processes,
)
from neox_train.errors import ConfigError

if TYPE_CHECKING:
    from neox_train.config.cluster import Cluster


def register(app: typer.Typer) -> None:
    """Add ``estimate``."""
    app.command("estimate")(estimate)


def estimate(
    words: list[str] = typer.Argument(None, metavar="RUN|FILE...", help="A run of --pipeline, or GPT-NeoX YAML files."),
    pipeline: Path | None = typer.Option(None, help="Pipeline file that names the run."),
    cluster: Path | None = typer.Option(
        None, help=f"Cluster file: memory and number of processes, limits of the gate; default {LOCAL} where it exists."
    ),
    results: Path = typer.Option(Path("results"), help="Results folder; its memory calibration counts."),
    config: list[Path] = typer.Option([], help="GPT-NeoX YAML file, the same as FILE; may be repeated."),
    nodes: int = typer.Option(1, min=1, help="Nodes, with FILE."),
    processes: int | None = typer.Option(None, min=1, help="Processes a node, with FILE; default the cluster file's."),
    override: list[str] = typer.Option([], help="KEY=VALUE laid over the files; may be repeated."),
    vocab_size: int | None = typer.Option(
        None, min=1, help=f"Tokens of the vocabulary, with FILE; default that of its data, else {DEFAULT_VOCABULARY}."
    ),
    run_dir: Path | None = typer.Option(
        None, help="With FILE: the folder that train would use; refuse what its checkpoints forbid."
    ),
    force: bool = typer.Option(False, "--force", help="Let a run pass that does not fit; recorded in its files."),
    allow_change: list[str] = typer.Option(
        [], help="Key that a run may change although it has checkpoints, as for submit; may be repeated."
    ),
) -> None:
    """Estimate a run's memory and refuse it when it does not fit.

    With RUN and --pipeline it is a stage of the workflow and writes the run's config.yml, memory.json, memory.png and
    estimated.json. With files, as `train` takes them, it only prints. Exit code 3 when the run does not fit.
    """
    from neox_train.cluster.environment import allow_changes
    from neox_train.config.cluster import load_cluster
    from neox_train.config.merge import parse_override

    words = words or []
    found = find_cluster_file(cluster)
    if pipeline is None:
        files = [*map(Path, words), *config]
        _require_files(files)
    elif len(words) != 1 or config:
        raise ConfigError(f"--pipeline {pipeline} goes with the name of one of its runs: estimate RUN --pipeline FILE")
    elif override:
        raise ConfigError(f"--override goes with files; set `overrides:` of run {words[0]} in {pipeline}")
    if found is None:
        raise ConfigError("no cluster file is given; add --cluster FILE, which says how much memory a process may use")
    allow_changes(allow_change)
    if pipeline is not None:
        _estimate_run(words[0], pipeline, found, results, force)
        return
    facts = with_processes(load_cluster(found), processes)
    overrides = dict(parse_override(text) for text in override)
    _estimate_files(
        files, facts, overrides, nodes=nodes, vocab_size=vocab_size, run_dir=run_dir, results=results, force=force
    )


def _require_files(files: list[Path]) -> None:
    if not files:
        raise ConfigError("nothing is named; give GPT-NeoX YAML files, or a RUN with --pipeline FILE")
    for file in files:
        if not file.exists():
            raise ConfigError(f"{file} is not there; correct the path, or add --pipeline FILE if it is a run's name")


def _estimate_run(run: str, pipeline: Path, cluster: Path, results: Path, force: bool) -> None:
    from neox_train.cluster.resumable import require_resumable
    from neox_train.commands.stage import stage
    from neox_train.config.cluster import load_cluster
    from neox_train.config.layout import RunFolder
    from neox_train.config.pipeline import load_pipeline
    from neox_train.memory.stage import estimate_run, require_passed

    folder = RunFolder.of(results, run)
    again = f"neox-train estimate {run} --pipeline {pipeline} --cluster {cluster} --results {results}"
    with stage("estimate", folder.path, subject=f"run {run}", command=again):
        resolved, estimated = estimate_run(
            load_pipeline(pipeline), run, load_cluster(cluster), results, force=force, accept=require_resumable
        )
        _show([*resolved.notices, *note_export(resolved)], estimated, run)
        require_passed(estimated, subject=f"run {run}", force=force)


def _estimate_files(
    files: list[Path],
    cluster: Cluster,
    overrides: dict[str, Any],
    *,
    nodes: int,
    vocab_size: int | None,
    run_dir: Path | None,
    results: Path,
    force: bool,
) -> None:
    from neox_train.cluster.resumable import require_resumable
    from neox_train.config.layout import RunFolder
    from neox_train.config.run import resolve_files
    from neox_train.config.support import require_built
    from neox_train.memory.calibration import read_calibration
    from neox_train.memory.estimate import estimate_memory
    from neox_train.memory.machine import read_machine
    from neox_train.memory.stage import require_passed

    config, assumed = assume_vocabulary(resolve_files(files, cluster, nodes=nodes, overrides=overrides), vocab_size)
    require_built(config, cluster)
    if run_dir is not None:
        require_resumable(RunFolder(run_dir), config)
    estimated = estimate_memory(config, cluster, read_calibration(results, cluster.name), read_machine())
    name = " + ".join(path.name for path in files)
    _show(
        [*config.notices, *assumed, *note_export(config)],
        estimated,
        f"{name} on {nodes} x {cluster.processes_per_node} ({cluster.name})",
    )
    require_passed(estimated, subject=name, force=force)


def _show(notices: list[str], estimated: object, title: str) -> None:
    from rich.console import Console

    from neox_train.memory.estimate import MemoryEstimate
    from neox_train.memory.table import build_table

    assert isinstance(estimated, MemoryEstimate)
    for notice in notices:
        typer.echo(f"note: {notice}", err=True)
    Console(markup=False).print(build_table(estimated, title=title))
