"""The ``neox-train`` command: every stage of the workflow, and what a person needs around it."""

from __future__ import annotations

import importlib
import sys

import typer

from neox_train import __version__
from neox_train.errors import UserError

app = typer.Typer(
    name="neox-train",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help=(
        "Train GPT-NeoX language models from raw text to an evaluated Hugging Face model.\n\n"
        "The whole chain is one command: [bold]snakemake --profile cluster_profiles/local train_all[/bold]. "
        "Each of its stages is a command here, reads and writes files, and costs nothing to repeat."
    ),
)

_COMMAND_MODULES = (
    "tokenize",
    "estimate",
    "train",
    "submit",
    "convert",
    "evaluate",
    "report",
    "config",
    "checkpoint",
    "data",
    "status",
    "attach",
    "cancel",
    "launch",
    "profile",
    "doctor",
)
"""Modules of neox_train.commands in the order the help page shows them; each has ``register(app)``."""


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        typer.echo(f"neox-train {__version__}")
        raise typer.Exit


def _register() -> None:
    for name in _COMMAND_MODULES:
        importlib.import_module(f"neox_train.commands.{name}").register(app)


def main() -> None:
    """Run the command line; a UserError becomes one sentence on stderr and its exit code."""
    _register()
    try:
        app()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
