"""``neox-train evaluate``: score one run's exported model on held-out text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add ``evaluate``."""
    app.command("evaluate")(evaluate)


def evaluate(
    run: Annotated[str | None, typer.Argument(help="A run of the pipeline file.")] = None,
    pipeline: Annotated[Path, typer.Option(help="The pipeline file.")] = Path("configs/pipelines/default.yaml"),
    results: Annotated[Path, typer.Option(help="Results folder.")] = Path("results"),
    run_dir: Annotated[
        Path | None, typer.Option(help="A run's folder, instead of RUN, --pipeline and --results.")
    ] = None,
) -> None:
    """Measure held-out loss, perplexity and bits per byte of an exported model, beside a unigram model and xz -9.

    With --run-dir the text is the test split of the dataset that the run was trained on. Finished parts are kept: a
    repeated command does only what is missing.
    """
    from neox_train.commands.stage import stage
    from neox_train.config.layout import DatasetFolder, RunFolder
    from neox_train.config.load import load_config
    from neox_train.config.pipeline import EvaluationSpec, load_pipeline
    from neox_train.data.identity import main_path
    from neox_train.errors import ConfigError

    if (run is None) == (run_dir is None):
        raise ConfigError("name a run of the pipeline, or a run's folder with --run-dir, and not both")
    if run_dir is not None:
        if not run_dir.is_dir():
            raise ConfigError(f"--run-dir {run_dir} is not a folder; name the folder that a training left")
        folder, measured, dataset = RunFolder(run_dir.absolute()), EvaluationSpec(), None
        command = f"neox-train evaluate --run-dir {run_dir}"
    else:
        assert run is not None
        spec = load_pipeline(pipeline)
        folder, measured = RunFolder.of(results, run), spec.evaluation
        dataset = DatasetFolder.of(results, spec.run(run).dataset)
        command = f"neox-train evaluate {run} --pipeline {pipeline} --results {results}"
    with stage("evaluate", folder.path, subject=f"run {folder.name}", command=command):
        from neox_train.evaluation.evaluate import evaluate_run

        if not folder.config_file.is_file():
            remedy = f"run `neox-train estimate {run}` first" if run else "name the folder that a training left"
            raise ConfigError(f"{folder.config_file} is missing; {remedy}")
        config = load_config([folder.config_file])
        dataset = dataset or DatasetFolder(Path(main_path(config)))
        scores = evaluate_run(folder, dataset, measured, seq_length=config.seq_length, seed=config.seed)
    tasks = scores["tasks"]
    typer.echo(
        f"{folder.name}: {tasks['held_out']['bits_per_byte']:.4f} bits per byte on {scores['bytes']} held-out bytes "
        f"(unigram {tasks['unigram']['bits_per_byte']:.4f}, xz -9 {tasks['xz']['bits_per_byte']:.4f}); "
        f"loss {tasks['held_out']['loss']:.4f}, perplexity {tasks['held_out']['perplexity']:.2f}"
    )
