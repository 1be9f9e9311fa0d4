"""``neox-train checkpoint``: which checkpoints are whole, and what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

checkpoint_app = typer.Typer(no_args_is_help=True, help="Verify and list checkpoints.")

_Place = Annotated[Path, typer.Argument(help="A run's folder, its checkpoints folder, or one step_… folder.")]


def register(app: typer.Typer) -> None:
    """Add ``checkpoint verify`` and ``checkpoint list``."""
    app.add_typer(checkpoint_app, name="checkpoint")


@checkpoint_app.command("verify")
def verify(place: _Place) -> None:
    """Compare every file with its recorded size and SHA-256; exit 1 if any checkpoint is not whole. Changes nothing."""
    from neox_train.checkpoint.choice import inspect_latest
    from neox_train.checkpoint.folders import parse_step
    from neox_train.checkpoint.manifest import verify_checkpoint

    complete: list[Path] = []
    rows = []
    for folder in _find_steps(place):
        problems = verify_checkpoint(folder, deep=True)
        if not problems:
            complete.append(folder)
        rows.append((folder.name, "damaged" if problems else "complete", "; ".join(problems)))
    damaged = len(rows) - len(complete)
    if parse_step(place.name) is None:
        rows += [("latest", "wrong", reason) for _, reason in inspect_latest(_find_root(place))]
    _print_table(("checkpoint", "state", "reason"), rows)
    if parse_step(place.name) is None:
        typer.echo(f"A resume starts from {complete[0].name if complete else 'step 0: no checkpoint is complete'}.")
    if damaged:
        raise typer.Exit(1)


@checkpoint_app.command("list")
def list_checkpoints(place: _Place) -> None:
    """Show each checkpoint's size on disk, the ranks that wrote it, and whether its files are there (sizes only)."""
    from neox_train.checkpoint.folders import read_latest
    from neox_train.checkpoint.manifest import inspect_manifest, verify_checkpoint

    steps = _find_steps(place)
    latest = read_latest(steps[0].parent)
    rows = []
    for folder in steps:
        manifest, _ = inspect_manifest(folder)
        size, ranks, marks = "", "", []
        if manifest is not None:
            size, ranks = f"{manifest.total_bytes / 1e9:.3f}", str(manifest.world.size)
            marks += ["final"] if manifest.final else []
        marks += ["latest"] if folder.name == latest else []
        state = "; ".join(verify_checkpoint(folder, deep=False)) or "complete"
        rows.append((folder.name, size, ranks, " ".join(marks), state))
    _print_table(("checkpoint", "GB", "ranks", "", "state"), rows)


def _find_root(place: Path) -> Path:
    return place / "checkpoints" if (place / "checkpoints").is_dir() else place


def _find_steps(place: Path) -> list[Path]:
    from neox_train.checkpoint.folders import list_steps, parse_step
    from neox_train.errors import CheckpointError

    if parse_step(place.name) is not None and place.is_dir():
        return [place]
    steps = [folder for _, folder in list_steps(_find_root(place))]
    if not steps:
        raise CheckpointError(
            f"{place} holds no checkpoint (step_…); name a run's checkpoints folder or one step in it"
        )
    return steps


def _print_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Columns as wide as their longest cell; the last one, a sentence, is never cut."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, *rows):
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
