"""The ``neox-train`` command: every stage of the workflow, and what a person needs around it."""

from __future__ import annotations

import importlib
import sys

import typer
from typer.models import CommandInfo, TyperInfo

from neox_train import __version__
from neox_train.errors import StoppedError, UserError

app = typer.Typer(
    name="neox-train",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help=(
        "Train GPT-NeoX language models from raw text to an evaluated Hugging Face model.\n\n"
        "The whole chain is one command, and the same command goes on after a kill or a crash:\n\n"
        "`snakemake --profile cluster_profiles/local train_all`\n\n"
        "The first place to look: `neox-train config show configs/125M.yml` prints what a GPT-NeoX file "
        "resolves to."
    ),
    epilog="`neox-train COMMAND --help` tells more of each. The guides are in docs/, the first steps in README.md.",
)

_COMMAND_MODULES = {
    "Stages, in the order of the chain (a finished one costs nothing to repeat)": (
        "tokenize",
        "estimate",
        "submit",
        "convert",
        "evaluate",
        "report",
    ),
    "Running trainings": ("train", "status", "attach", "cancel", "launch"),
    "Looking closer": ("plan", "memory", "config", "checkpoint", "data"),
    "A new cluster": ("profile", "doctor"),
}
"""Modules of neox_train.commands by their heading on the help page; each has ``register(app)``."""


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        typer.echo(f"neox-train {__version__}")
        raise typer.Exit


def _register() -> None:
    for heading, names in _COMMAND_MODULES.items():
        for name in names:
            importlib.import_module(f"neox_train.commands.{name}").register(app)
        entries: list[CommandInfo | TyperInfo] = [*app.registered_commands, *app.registered_groups]
        for entry in entries:
            if not isinstance(entry.rich_help_panel, str):
                entry.rich_help_panel = heading


def main() -> None:
    """Run the command line; a UserError becomes one sentence on stderr and its exit code."""
    _register()
    try:
        app()
    except UserError as error:
        word = "stopped" if isinstance(error, StoppedError) else "error"
        print(f"{word}: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
