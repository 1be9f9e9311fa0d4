"""``neox-train profile``: a new cluster profile, made by asking Slurm and you."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Make a profile for the cluster you are on.",
)


def register(app: typer.Typer) -> None:
    """Add ``profile create``."""
    app.add_typer(_app, name="profile")


@_app.callback()
def _group() -> None:
    """Make a profile for the cluster you are on."""


@_app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Name of the profile: a folder of cluster_profiles.")],
    partition: Annotated[str | None, typer.Option(help="Partition of the GPU nodes.")] = None,
    gpu_type: Annotated[str | None, typer.Option(help="Slurm's GPU type, where the partition mixes types.")] = None,
    gpu: Annotated[str | None, typer.Option(help="Which GPU it is (a100-40gb, h100, ...).")] = None,
    gres_style: Annotated[str | None, typer.Option(help="gpus-per-node, gres, or none.")] = None,
    processes_per_node: Annotated[int | None, typer.Option(help="GPUs of a node to use; default all.")] = None,
    cpus_per_process: Annotated[int | None, typer.Option(help="Cores of a process; default its share.")] = None,
    constraint: Annotated[str | None, typer.Option(help="Node features to ask for.")] = None,
    cpu_partition: Annotated[str | None, typer.Option(help="Partition for tokenize and convert.")] = None,
    time_limit: Annotated[int | None, typer.Option(help="Minutes of one job; default a day, or the limit.")] = None,
    results: Annotated[str | None, typer.Option(help="Folder of results, such as $SCRATCH/neox-train.")] = None,
    scratch: Annotated[str | None, typer.Option(help="Folder on a compute node's own disk.")] = None,
    internet: Annotated[str | None, typer.Option(help="Whether compute nodes reach the internet: yes or no.")] = None,
    interface: Annotated[str | None, typer.Option(help="Network interface for NCCL, such as ib0.")] = None,
    python: Annotated[str | None, typer.Option(help="Interpreter on the compute nodes, when it is another.")] = None,
    setup: Annotated[list[str] | None, typer.Option(help="Shell line before it; may be repeated.")] = None,
    folder: Annotated[Path, typer.Option(help="Folder of the profiles.")] = Path("cluster_profiles"),
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing; refuse where no default is safe.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing profile.")] = False,
) -> None:
    """Write cluster_profiles/NAME from what sinfo and scontrol say, and from your answers."""
    import re

    from neox_train.cluster.profile_answers import Answers
    from neox_train.cluster.profile_create import gather_profile
    from neox_train.cluster.profile_text import write_profile
    from neox_train.errors import ConfigError

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ConfigError(f"'{name}' is no folder name; use letters, digits, dots, dashes and underscores")
    given = {
        "partition": partition,
        "gpu_type": gpu_type,
        "gpu": gpu,
        "gres_style": gres_style,
        "processes_per_node": processes_per_node,
        "cpus_per_process": cpus_per_process,
        "constraint": constraint,
        "cpu_partition": cpu_partition,
        "time_limit": time_limit,
        "results": results,
        "scratch": scratch,
        "internet": internet,
        "interface": interface,
        "python": python,
    }
    facts = gather_profile(name, Answers(given, None if yes else _prompt), setup=setup or ())
    for path in write_profile(facts, folder, force=force):
        typer.echo(f"wrote {path}")
    gpus = f"{facts.processes_per_node} {facts.gpu.type} of {facts.gpu.memory_gib:g} GiB a node"
    typer.echo(f"partition {facts.partition}: {gpus}, {facts.time_limit_minutes} minutes a job")
    if facts.accounts:
        typer.echo(f"your accounts: {', '.join(facts.accounts)}; choose one with export NEOX_TRAIN_ACCOUNT=NAME")
    typer.echo(f"next: neox-train doctor --profile {folder / name}")


def _prompt(question: str, default: str | None, options: Sequence[str]) -> str:
    choices = f" [{', '.join(options)}]" if options else ""
    return str(typer.prompt(question + choices, default=default))
