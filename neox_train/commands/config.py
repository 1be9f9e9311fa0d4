"""``neox-train config``: what a configuration resolves to, what a key means, the page of all keys, the schemas."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neox_train.errors import UserError

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Show what a configuration resolves to, explain a key, regenerate the page of keys and the schemas.",
)


def register(app: typer.Typer) -> None:
    """Add ``config show``, ``config explain``, ``config reference`` and ``config schema``."""
    app.add_typer(_app, name="config")


@_app.command("show")
def show(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="GPT-NeoX YAML files; a key has one value in all of them, --override lays another over it."
        ),
    ],
    world_size: Annotated[
        int | None,
        typer.Option("--world-size", "--processes", help="Training processes; default: those of one replica.", min=1),
    ] = None,
    vocab_size: Annotated[int | None, typer.Option(help="Tokens of the tokenizer.", min=1)] = None,
    override: Annotated[list[str] | None, typer.Option(help="KEY=VALUE laid over the files; may be repeated.")] = None,
    deepspeed: Annotated[bool, typer.Option("--deepspeed", help="Print the DeepSpeed JSON instead.")] = False,
) -> None:
    """Print what the configuration comes to (tokens of a step, parameters, widths), then every key as YAML.

    Keys stand as written or by default, those derived from others first.

    Ends with exit code 2 and the reason where training would refuse it on any machine of so many processes.
    """
    import json

    from neox_train.commands.by_hand import note_export
    from neox_train.config.deepspeed import deepspeed_json
    from neox_train.config.load import load_config
    from neox_train.config.merge import parse_override
    from neox_train.config.show import render_config, render_sizes
    from neox_train.config.support import require_trainable

    overrides = dict(parse_override(text) for text in override or [])
    config = load_config(files, overrides=overrides, world_size=world_size)
    if vocab_size is not None:
        config = config.with_vocab_size(vocab_size)
    sized, assumed = _assume_vocabulary(config)
    for sentence in [*config.notices, *assumed, *note_export(sized)]:
        typer.echo(f"note: {sentence}", err=True)
    if deepspeed:
        typer.echo(json.dumps(deepspeed_json(config), indent=2))
    else:
        typer.echo(f"{render_sizes(sized)}\n{render_config(config)}", nl=False)
    require_trainable(config)


def _assume_vocabulary(config: NeoxConfig) -> tuple[NeoxConfig, list[str]]:
    """As the other commands do; data that cannot be read are no reason to show nothing."""
    from neox_train.commands.by_hand import DEFAULT_VOCABULARY, assume_vocabulary

    try:
        return assume_vocabulary(config, None)
    except UserError as error:
        sentence = f"the data do not tell their vocabulary, so {DEFAULT_VOCABULARY:,} tokens are assumed: {error}"
        return config.with_vocab_size(DEFAULT_VOCABULARY), [sentence]


@_app.command("explain")
def explain(
    key: Annotated[str, typer.Argument(help="A key, with hyphens or underscores; dotted inside a block.")],
) -> None:
    """Say what a key means: its type, its default, and what this project does with it."""
    from neox_train.config.explain import explain_key

    typer.echo(explain_key(key))


@_app.command("reference")
def reference(
    file: Annotated[Path, typer.Option(help="The page that is written.")] = Path("docs/configuration.md"),
) -> None:
    """Write the page of all keys: type, default, meaning, status."""
    from neox_train.config.reference import render_reference
    from neox_train.files import write_text

    write_text(file, render_reference())
    typer.echo(str(file))


@_app.command("schema")
def schema(
    folder: Annotated[Path, typer.Option(help="Folder the schemas are written to.")] = Path("workflow/schemas"),
) -> None:
    """Write the JSON schemas of the training keys, the pipeline file and the cluster file."""
    from neox_train.config.schemas import write_schemas

    for path in write_schemas(folder):
        typer.echo(str(path))
