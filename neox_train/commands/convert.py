"""``neox-train convert``: a trained run as a directory that ``transformers`` loads."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from neox_train.commands.stage import stage
from neox_train.config.layout import RunFolder
from neox_train.errors import ConfigError


def register(app: typer.Typer) -> None:
    """Add ``convert``."""
    app.command("convert")(convert)


def convert(
    run: Annotated[str | None, typer.Argument(help="Name of a run of the pipeline file.")] = None,
    pipeline: Annotated[Path | None, typer.Option(help="Pipeline file that names the run.")] = None,
    results: Annotated[Path, typer.Option(help="Results folder.")] = Path("results"),
    run_dir: Annotated[Path | None, typer.Option(help="A run's folder, instead of RUN and --results.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Another step folder than the last; its export goes to hf-step_…/.")
    ] = None,
    dtype: Annotated[
        str, typer.Option(help="Precision of the exported weights: float32, bfloat16, float16.")
    ] = "float32",
    max_shard_gb: Annotated[float, typer.Option(help="Largest weight file, GB (10^9 bytes).", min=0.001)] = 5.0,
) -> None:
    """Export a trained run to Hugging Face form and compare the logits of both on held-out text.

    Writes hf/, parity.json and, last, converted.json into the run's folder. Repeating it costs nothing.
    """
    folder = _find_run(run, pipeline, results, run_dir)
    options = ["--run-dir", str(folder.path)] if run is None else [run, "--results", str(results)]
    if run is not None and pipeline is not None:
        options += ["--pipeline", str(pipeline)]
    command = " ".join(["neox-train convert", *options])
    with stage("convert", folder.path, subject=f"run {folder.name}", command=command):
        from neox_train.checkpoint.convert import ConvertOptions, convert_run
        from neox_train.checkpoint.hf_shards import DTYPES
        from neox_train.locks import hold_lock

        if dtype not in DTYPES:
            raise ConfigError(f"--dtype {dtype!r} is not a precision; choose one of {', '.join(DTYPES)}")
        choices = ConvertOptions(dtype=dtype, max_shard_bytes=int(max_shard_gb * 10**9), step_folder=checkpoint)
        # A killed workflow leaves its stage running: the next start waits for what it makes.
        with hold_lock(folder.lock, note="convert", wait_seconds=math.inf, tell=typer.echo):
            convert_run(folder, choices, report=typer.echo)


def _find_run(run: str | None, pipeline: Path | None, results: Path, run_dir: Path | None) -> RunFolder:
    if (run is None) == (run_dir is None):
        raise ConfigError("name a run of the pipeline, or a run's folder with --run-dir, and not both")
    if run_dir is not None:
        if not run_dir.is_dir():
            raise ConfigError(f"--run-dir {run_dir} is not a folder; name the folder that a training left")
        folder = RunFolder(run_dir.absolute())
        if not folder.config_file.is_file():
            raise ConfigError(f"--run-dir {run_dir} is no run's folder (no config.yml); name the one a training left")
        return folder
    assert run is not None
    if pipeline is not None:
        from neox_train.config.pipeline import load_pipeline

        load_pipeline(pipeline).run(run)
    folder = RunFolder.of(results, run)
    if not folder.path.is_dir():
        raise ConfigError(f"{folder.path} is not there; train the run {run!r} first, or set --results")
    return folder
