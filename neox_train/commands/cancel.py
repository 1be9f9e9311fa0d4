"""``neox-train cancel``: end a run's job from any shell, and keep it from being submitted again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add ``cancel``."""
    app.command("cancel")(cancel)


def cancel(
    run: Annotated[str, typer.Argument(help="A run that was submitted.")],
    results: Annotated[Path, typer.Option(help="Results folder.")] = Path("results"),
    undo: Annotated[bool, typer.Option("--undo", help="Allow a cancelled run to be submitted again.")] = False,
) -> None:
    """Cancel a run's job and mark the run, so that no command submits it again until `--undo`.

    Checkpoints stay; after `--undo` the usual command continues from the newest.
    """
    from neox_train.cluster.cancellation import cancel_run, clear_mark
    from neox_train.cluster.overview import find_run

    folder = find_run(results, run)
    if undo:
        cleared = clear_mark(folder)
        typer.echo(f"run {run} may be submitted again" if cleared else f"run {run} was not cancelled")
        return
    typer.echo(cancel_run(folder))
