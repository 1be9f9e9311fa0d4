"""``neox-train checkpoint``: which checkpoints are whole, and what they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

checkpoint_app = typer.Typer(no_args_is_help=True, help="Verify and list checkpoints.")

_Place = Annotated[Path, typer.Argument(help="A run's checkpoints folder, or one step_… folder in it.")]


def register(app: typer.Typer) -> None:
    """Add ``checkpoint verify`` and ``checkpoint list``."""
    app.add_typer(checkpoint_app, name="checkpoint")


@checkpoint_app.command("verify")
def verify(place: _Place) -> None:
    """Compare every file with its recorded size and SHA-256; exit 1 if any checkpoint is not whole."""
    from neox_train.checkpoint.manifest import verify_checkpoint

    damaged = 0
    for folder in _find_steps(place):
        problems = verify_checkpoint(folder, deep=True)
        damaged += bool(problems)
        typer.echo(f"{folder}: {'; '.join(problems) or 'complete'}")
    if damaged:
        raise typer.Exit(1)


@checkpoint_app.command("list")
def list_checkpoints(place: _Place) -> None:
    """Show each checkpoint's step, size, world and whether its files are there (sizes only)."""
    from rich.console import Console
    from rich.table import Table

    from neox_train.checkpoint.manifest import inspect_manifest, verify_checkpoint

    table = Table("checkpoint", "GB", "ranks", "final", "state")
    for folder in _find_steps(place):
        manifest, _ = inspect_manifest(folder)
        size = "" if manifest is None else f"{sum(record.bytes for record in manifest.files.values()) / 1e9:.3f}"
        ranks = "" if manifest is None else str(manifest.world.size)
        final = "" if manifest is None or not manifest.final else "yes"
        table.add_row(folder.name, size, ranks, final, "; ".join(verify_checkpoint(folder, deep=False)) or "complete")
    Console().print(table)


def _find_steps(place: Path) -> list[Path]:
    from neox_train.checkpoint.folders import list_steps, parse_step
    from neox_train.errors import CheckpointError

    if parse_step(place.name) is not None and place.is_dir():
        return [place]
    steps = [folder for _, folder in list_steps(place)]
    if not steps:
        raise CheckpointError(f"{place} holds no checkpoint (step_…); name a run's checkpoints folder or one step in it")
    return steps
