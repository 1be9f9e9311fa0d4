"""``neox-train report``: one HTML page about all runs of a pipeline file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add ``report``."""
    app.command("report")(report)


def report(
    pipeline: Annotated[Path, typer.Option(help="The pipeline file.")] = Path("configs/pipelines/default.yaml"),
    results: Annotated[Path, typer.Option(help="Results folder.")] = Path("results"),
) -> None:
    """Write one self-contained HTML page: scores, loss curves, throughput, memory, texts, provenance.

    Runs that are not finished are shown as far as they have come; the command can be repeated at any time.
    """
    from neox_train.commands.stage import stage
    from neox_train.config.pipeline import load_pipeline
    from neox_train.monitoring.report.inputs import read_inputs
    from neox_train.monitoring.report.page import write_report

    page = results / "report" / "index.html"
    command = f"neox-train report --pipeline {pipeline} --results {results}"
    with stage("report", page.parent, subject="report", command=command):
        spec = load_pipeline(pipeline)
        runs = {name: run.dataset for name, run in spec.runs.items()}
        write_report(read_inputs(pipeline.name, runs, results), page)
    typer.echo(f"report: {page}")
