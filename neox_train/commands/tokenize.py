"""``neox-train tokenize``: a dataset of the pipeline file as a token store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neox_train.commands.stage import stage
from neox_train.config.layout import DatasetFolder


def register(app: typer.Typer) -> None:
    """Add ``tokenize``."""
    app.command("tokenize")(tokenize)


def tokenize(
    dataset: Annotated[str, typer.Argument(help="Name of a dataset of the pipeline file.")],
    pipeline: Annotated[Path, typer.Option(help="Pipeline file that names the dataset.")],
    results: Annotated[Path, typer.Option(help="Results folder.")] = Path("results"),
) -> None:
    """Read a corpus, train or take its tokenizer, and write the tokens of each split.

    Writes tokenizer.json, tokens-*.h5, manifest.json and, last, tokenized.json into results/datasets/DATASET. A dataset
    whose sources and settings are unchanged costs nothing to repeat.
    """
    from neox_train.config.pipeline import load_pipeline
    from neox_train.data.tokenize import tokenize_dataset

    spec = load_pipeline(pipeline).dataset(dataset)
    folder = DatasetFolder.of(results, dataset)
    command = f"neox-train tokenize {dataset} --pipeline {pipeline} --results {results}"
    with stage("tokenize", folder.path, subject=f"dataset {dataset}", command=command):
        tokenize_dataset(spec, folder, report=typer.echo)
