"""``neox-train submit``: train one run of a pipeline on a cluster, or follow it where it trains already."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neox_train.commands.stage import stage


def register(app: typer.Typer) -> None:
    """Add ``submit``."""
    app.command("submit")(submit)


def submit(
    run: Annotated[str, typer.Argument(help="A run of the pipeline file.")],
    pipeline: Annotated[Path, typer.Option(help="The pipeline file.")] = Path("configs/pipelines/default.yaml"),
    cluster: Annotated[Path, typer.Option(help="The cluster file.")] = Path("cluster_profiles/local/cluster.yaml"),
    results: Annotated[Path | None, typer.Option(help="Results folder; default the cluster file's.")] = None,
    allow_change: Annotated[
        list[str] | None, typer.Option(help="Key that a resumed run may change all the same; may be repeated.")
    ] = None,
) -> None:
    """Train a run: submit its job, follow it, start it again while it makes progress.

    Repeat the command after any interruption: it attaches to a living job, continues from the newest complete
    checkpoint otherwise, and returns at once when the run is trained.
    """
    from neox_train.cluster.environment import allow_changes
    from neox_train.cluster.submission import train_run
    from neox_train.config.cluster import load_cluster
    from neox_train.config.layout import RunFolder
    from neox_train.config.pipeline import load_pipeline

    allow_changes(allow_change or [])
    facts = load_cluster(cluster)
    spec = load_pipeline(pipeline).run(run)
    folder = RunFolder.of(results or facts.results_path, run)
    command = f"neox-train submit {run} --pipeline {pipeline} --cluster {cluster} --results {folder.path.parent.parent}"
    with stage("train", folder.path, subject=f"run {run}", command=command):
        train_run(folder, facts, spec.nodes)
