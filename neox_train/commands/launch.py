"""``neox-train launch``: the workflow's controller as a small job, for login nodes that are rebooted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add ``launch``."""
    app.command("launch", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(launch)


def launch(
    context: typer.Context,
    profile: Annotated[Path, typer.Option(help="Profile folder, as for snakemake.")],
    minutes: Annotated[
        int | None,
        typer.Option(min=2, help="Time limit of the controller, after which it starts again; the profile's."),
    ] = None,
    memory_mib: Annotated[int, typer.Option(min=256, help="Memory; each followed training takes about 60 MiB.")] = 2000,
    config: Annotated[list[str] | None, typer.Option(help="KEY=VALUE over the cluster file; may be repeated.")] = None,
) -> None:
    """Run `snakemake --profile PROFILE` as a one-CPU job that queues itself again when its time is up.

    Further arguments go to snakemake, such as `train_all` (the default) or `--until tokenize`. Repeating the command is
    refused while the job waits or runs; `scancel` ends it, and the trainings go on.
    """
    from neox_train.cluster.controller import Controller, launch_controller
    from neox_train.config.cluster import load_cluster

    cluster = load_cluster(profile / "cluster.yaml", command_line=config or ())
    settings = ["--config", *config] if config else []
    arguments = (*settings, "--", *(context.args or ["train_all"]))
    if any(word.startswith("-") for word in context.args):
        arguments = (*settings, *context.args)
    controller = Controller(profile, Path.cwd(), arguments, minutes or cluster.time_limit_minutes, memory_mib)
    job_id, log = launch_controller(controller, cluster, cluster.results_path)
    typer.echo(f"controller job {job_id}; its output is {log}; `neox-train status` shows the runs")
