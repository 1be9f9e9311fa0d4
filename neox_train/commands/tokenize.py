"""``neox-train tokenize``: a dataset of the pipeline file as a token store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neox_train.commands.stage import stage
from neox_train.config.layout import PLAN, DatasetFolder, shard_name
from neox_train.errors import ConfigError


def register(app: typer.Typer) -> None:
    """Add ``tokenize``."""
    app.command("tokenize")(tokenize)


def tokenize(
    dataset: Annotated[str, typer.Argument(help="Name of a dataset of the pipeline file.")],
    pipeline: Annotated[Path, typer.Option(help="Pipeline file that names the dataset.")],
    results: Annotated[Path, typer.Option(help="Results folder.")] = Path("results"),
    part: Annotated[
        str | None,
        typer.Option(help="Of a dataset with `shards`: `plan` divides its files, a number from 0 makes that shard."),
    ] = None,
) -> None:
    """Read a corpus, train or take its tokenizer, and write the tokens of each split.

    Writes tokenizer.json, tokens-*.h5, manifest.json and, last, tokenized.json into results/datasets/DATASET. A dataset
    whose sources and settings are unchanged costs nothing to repeat. Of a dataset with `shards` above 1 the workflow
    runs every part in a job of its own, and this command without one, which joins them.
    """
    from neox_train.config.pipeline import load_pipeline
    from neox_train.data.tokenize import plan_dataset, tokenize_dataset, tokenize_shard

    spec = load_pipeline(pipeline).dataset(dataset)
    folder = DatasetFolder.of(results, dataset)
    command = f"neox-train tokenize {dataset} --pipeline {pipeline} --results {results}"
    subject = f"dataset {dataset}"
    if part is None:
        with stage("tokenize", folder.path, subject=subject, command=command):
            tokenize_dataset(spec, folder, report=typer.echo)
    elif part == PLAN:
        with stage("tokenize", folder.part(PLAN).path, subject=subject, command=f"{command} --part {PLAN}"):
            plan_dataset(spec, folder, report=typer.echo)
    elif part.isdecimal():
        shard = int(part)
        place = folder.part(shard_name(shard)).path
        with stage("tokenize", place, subject=f"{subject}, shard {shard}", command=f"{command} --part {shard}"):
            tokenize_shard(spec, folder, shard, report=typer.echo)
    else:
        raise ConfigError(f"--part {part} is no part of a dataset; give {PLAN} or the number of a shard")
