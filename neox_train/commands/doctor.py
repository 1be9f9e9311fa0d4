"""``neox-train doctor``: does a profile fit the cluster, seen from here and from a compute node?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add ``doctor``."""
    app.command("doctor")(doctor)


def doctor(
    profile: Annotated[str, typer.Option(help="A profile's folder, its name, or a cluster file.")] = "local",
    pipeline: Annotated[Path | None, typer.Option(help="Pipeline file: its largest run is checked.")] = None,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of the request and of the job.")] = 1,
    config: Annotated[list[str] | None, typer.Option(help="KEY=VALUE over the cluster file; may be repeated.")] = None,
    no_job: Annotated[bool, typer.Option("--no-job", help="Look from here only; submit nothing.")] = False,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Measure collectives of 1 KiB to 1 GiB in the job, and draw them.")
    ] = False,
    sweep_seconds: Annotated[float, typer.Option(min=1, help="About how long the sweep may take.")] = 120,
    flight_recorder: Annotated[
        Path | None,
        typer.Option(help="Folder of a hung job's flight recorder dumps: tell who waits for whom, no more."),
    ] = None,
    wait_minutes: Annotated[float, typer.Option(min=0, help="How long to wait for the job.")] = 10,
) -> None:
    """Compare a profile with the cluster: Slurm, accounts, folders, software, then a short job on its nodes.

    Exit code 1 when a check failed.
    """
    if flight_recorder is not None:
        _tell_flight(flight_recorder)
        return
    from neox_train.cluster.check import has_failed
    from neox_train.cluster.doctor import examine
    from neox_train.config.cluster import load_cluster
    from neox_train.config.pipeline import load_pipeline
    from neox_train.config.profiles import find_profile

    cluster_file, snakemake_profile = find_profile(profile)
    cluster = load_cluster(cluster_file, command_line=config or ())
    largest = max((run.nodes for run in load_pipeline(pipeline).runs.values()), default=1) if pipeline else 1
    checks = examine(
        cluster,
        snakemake_profile,
        nodes=max(nodes, largest),
        job_nodes=None if no_job else nodes,
        wait_minutes=wait_minutes,
        tell=lambda text: typer.echo(text, err=True),
        sweep_seconds=sweep_seconds if sweep else 0.0,
    )
    _show(checks, f"{cluster.name}: {cluster_file}")
    if has_failed(checks):
        raise typer.Exit(1)


def _tell_flight(folder: Path) -> None:
    from neox_train.monitoring.flight_recorder import read_dumps
    from neox_train.monitoring.flight_summary import summarise

    for line in summarise(read_dumps(folder)):
        typer.echo(line)


def _show(checks: list, title: str) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colours = {"ok": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}
    table = Table("check", "", "found", "what to do", title=title, title_justify="left")
    for check in checks:
        table.add_row(check.name, Text(check.status, style=colours[check.status]), check.found, check.remedy)
    console = Console(markup=False)
    # A table cut to 80 columns in a log or a pipe would lose the remedies.
    (console if console.is_terminal else Console(width=200, markup=False)).print(table)
