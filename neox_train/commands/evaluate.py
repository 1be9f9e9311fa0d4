"""``neox-train evaluate``: score one run's exported model on held-out text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add ``evaluate``."""
    app.command("evaluate")(evaluate)


def evaluate(
    run: Annotated[str, typer.Argument(help="A run of the pipeline file.")],
    pipeline: Annotated[Path, typer.Option(help="The pipeline file.")] = Path("configs/pipelines/default.yaml"),
    results: Annotated[Path, typer.Option(help="Results folder.")] = Path("results"),
) -> None:
    """Measure held-out loss, perplexity and bits per byte of an exported model, beside a unigram model and xz -9.

    Finished parts are kept: a repeated command does only what is missing.
    """
    from neox_train.commands.stage import stage
    from neox_train.config.layout import DatasetFolder, RunFolder
    from neox_train.config.load import load_config
    from neox_train.config.pipeline import load_pipeline
    from neox_train.errors import ConfigError

    spec = load_pipeline(pipeline)
    dataset = DatasetFolder.of(results, spec.run(run).dataset)
    folder = RunFolder.of(results, run)
    command = f"neox-train evaluate {run} --pipeline {pipeline} --results {results}"
    with stage("evaluate", folder.path, subject=f"run {run}", command=command):
        from neox_train.evaluation.evaluate import evaluate_run

        if not folder.config_file.is_file():
            raise ConfigError(f"{folder.config_file} is missing; run `neox-train estimate {run}` first")
        config = load_config([folder.config_file])
        scores = evaluate_run(folder, dataset, spec.evaluation, seq_length=config.seq_length, seed=config.seed)
    tasks = scores["tasks"]
    typer.echo(
        f"{run}: {tasks['held_out']['bits_per_byte']:.4f} bits per byte on {scores['bytes']} held-out bytes "
        f"(unigram {tasks['unigram']['bits_per_byte']:.4f}, xz -9 {tasks['xz']['bits_per_byte']:.4f}); "
        f"loss {tasks['held_out']['loss']:.4f}, perplexity {tasks['held_out']['perplexity']:.2f}"
    )
