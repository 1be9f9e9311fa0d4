"""``neox-train attach``: follow a run's job from any shell, without submitting anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add ``attach``."""
    app.command("attach")(attach)


def attach(
    run: Annotated[str, typer.Argument(help="A run that was submitted.")],
    results: Annotated[Path, typer.Option(help="Results folder.")] = Path("results"),
) -> None:
    """Follow a run's job to its end: queue, progress, and why it ended. Nothing is submitted.

    Ctrl-C ends the following; the job goes on.
    """
    from neox_train.cluster.overview import find_run
    from neox_train.cluster.submission import attach_run

    attach_run(find_run(results, run))
