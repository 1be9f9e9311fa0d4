"""``neox-train status``: where every run stands, from its files and from Slurm."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add ``status``."""
    app.command("status")(status)


def status(
    run: Annotated[str | None, typer.Argument(help="One run; default all.")] = None,
    results: Annotated[Path, typer.Option(help="Results folder.")] = Path("results"),
) -> None:
    """Show runs: state, step, loss, attempts, and why the last one ended."""
    from rich.console import Console
    from rich.table import Table

    from neox_train.cluster.overview import find_run, list_runs

    if run:
        find_run(results, run)
    rows = list_runs(results, run)
    if not rows:
        typer.echo(f"no runs in {results / 'runs'} yet")
        return
    table = Table("run", "state", "step", "loss", "validation", "attempts", "job", "changed", "note")
    for row in rows:
        changed = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.changed)) if row.changed else ""
        table.add_row(
            row.name,
            row.state,
            row.steps,
            "" if row.loss is None else f"{row.loss:.4f}",
            "" if row.validation_loss is None else f"{row.validation_loss:.4f}",
            str(row.attempts),
            row.job_id or "",
            changed,
            row.note,
        )
    console = Console(markup=False)
    # A table cut to 80 columns in a log or a pipe would lose the notes.
    (console if console.is_terminal else Console(width=200, markup=False)).print(table)
