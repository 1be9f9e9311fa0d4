"""``neox-train estimate``: what a run needs of each process's memory, before anything is queued."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from neox_train.errors import ConfigError

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

_DEFAULT_VOCABULARY = 50_257
"""GPT-2's, which GPT-NeoX takes where nothing else is said."""


def register(app: typer.Typer) -> None:
    """Add ``estimate``."""
    app.command("estimate")(estimate)


def estimate(
    run: str | None = typer.Argument(None, help="Run of the pipeline file."),
    pipeline: Path | None = typer.Option(None, help="Pipeline file that names the run."),
    cluster: Path = typer.Option(..., help="Cluster file: memory of a process, processes a node, limits of the gate."),
    results: Path = typer.Option(Path("results"), help="Results folder; its memory calibration counts."),
    config: list[Path] = typer.Option([], help="GPT-NeoX YAML file, without a pipeline; may be repeated."),
    nodes: int = typer.Option(1, min=1, help="Nodes, with --config."),
    vocab_size: int = typer.Option(_DEFAULT_VOCABULARY, min=1, help="Tokens of the vocabulary, with --config."),
    force: bool = typer.Option(False, "--force", help="Let a run pass that does not fit; recorded in its files."),
    allow_change: list[str] = typer.Option(
        [], help="Key that a run may change although it has checkpoints, as for submit; may be repeated."
    ),
) -> None:
    """Estimate a run's memory and refuse it when it does not fit.

    With RUN and --pipeline it is a stage of the workflow and writes the run's config.yml, memory.json, memory.png and
    estimated.json. With --config it only prints. Exit code 3 when the run does not fit.
    """
    from neox_train.cluster.environment import allow_changes

    if (run is None) == (not config):
        raise ConfigError("estimate takes either a RUN with --pipeline FILE, or --config FILE; give one of them")
    if run is not None:
        if pipeline is None:
            raise ConfigError(f"estimate {run} needs the file that names the run; add --pipeline FILE")
        allow_changes(allow_change)
        _estimate_run(run, pipeline, cluster, results, force)
    else:
        _estimate_files(config, cluster, nodes, vocab_size, force, results)


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
        _show([*resolved.notices, *_note_export(resolved)], estimated, run)
        require_passed(estimated, subject=f"run {run}", force=force)


def _estimate_files(
    files: list[Path], cluster_file: Path, nodes: int, vocab_size: int, force: bool, results: Path
) -> None:
    from neox_train.config.cluster import load_cluster
    from neox_train.config.run import resolve_files
    from neox_train.config.support import require_trainable
    from neox_train.memory.calibration import read_calibration
    from neox_train.memory.estimate import estimate_memory
    from neox_train.memory.stage import require_passed

    cluster = load_cluster(cluster_file)
    config = resolve_files(files, cluster, nodes=nodes)
    if config.vocab_size is None:
        config = config.with_vocab_size(vocab_size)
    require_trainable(config, cluster)
    estimated = estimate_memory(config, cluster, read_calibration(results, cluster.name))
    name = " + ".join(path.name for path in files)
    _show(
        [*config.notices, *_note_export(config)],
        estimated,
        f"{name} on {nodes} x {cluster.processes_per_node} ({cluster.name})",
    )
    require_passed(estimated, subject=name, force=force)


def _note_export(config: NeoxConfig) -> list[str]:
    """What the convert stage would say only after the training."""
    from neox_train.checkpoint.hf_config import choose_family
    from neox_train.config.architecture import Architecture
    from neox_train.errors import NotBuiltError

    try:
        choose_family(Architecture.from_config(config))
    except NotBuiltError as error:
        return [f"the run trains, but convert will refuse it: {error}"]
    return []


def _show(notices: list[str], estimated: object, title: str) -> None:
    from rich.console import Console

    from neox_train.memory.estimate import MemoryEstimate
    from neox_train.memory.table import build_table

    assert isinstance(estimated, MemoryEstimate)
    for notice in notices:
        typer.echo(f"note: {notice}", err=True)
    Console().print(build_table(estimated, title=title))
