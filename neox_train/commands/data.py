"""``neox-train data``: look into a dataset, verify it, exchange it with GPT-NeoX's .bin/.idx files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neox_train.config.layout import DatasetFolder
from neox_train.errors import ConfigError, DataError

Folder = Annotated[Path, typer.Argument(help="Dataset folder (the one with manifest.json).")]


def register(app: typer.Typer) -> None:
    """Add ``data`` with its sub-commands."""
    group = typer.Typer(no_args_is_help=True, help="Inspect, verify, export and import tokenized datasets.")
    group.command("inspect")(inspect)
    group.command("verify")(verify)
    group.command("export")(export)
    group.command("import")(import_)
    group.command("tokenizer")(tokenizer)
    app.add_typer(group, name="data")


def inspect(
    folder: Folder,
    samples: Annotated[int, typer.Option(help="Documents shown of each split.", min=0)] = 1,
    sample_tokens: Annotated[int, typer.Option(help="Tokens shown of each document.", min=1)] = 64,
    picture: Annotated[Path | None, typer.Option(help="PNG to draw the document lengths into.")] = None,
) -> None:
    """Show counts, document lengths and decoded samples."""
    from neox_train.data.inspection import describe_dataset
    from neox_train.data.length_picture import draw_lengths

    typer.echo(describe_dataset(folder, samples=samples, sample_tokens=sample_tokens))
    if picture is not None:
        draw_lengths(folder, picture)
        typer.echo(f"document lengths: {picture}")


def verify(folder: Folder) -> None:
    """Check every file against the manifest: hashes, sizes, ids, document boundaries."""
    from neox_train.data.verification import verify_dataset

    problems = verify_dataset(folder)
    for problem in problems:
        typer.echo(problem)
    if problems:
        raise DataError(
            f"{folder} is not whole (see the lines above); mend what they say, or delete it and make it again "
            "(`neox-train tokenize`, or `data import` of .bin/.idx files)"
        )
    typer.echo(f"{folder}: every file is as it was written")


def export(
    folder: Folder,
    prefix: Annotated[Path, typer.Argument(help="Path of the files without .bin and .idx.")],
    split: Annotated[str, typer.Option(help="Split to write.")] = "train",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files of that name.")] = False,
) -> None:
    """Write a split as the .bin/.idx files that GPT-NeoX and Megatron read."""
    from neox_train.data.manifest import load_manifest
    from neox_train.data.mmap_files import export_mmap
    from neox_train.data.pair_files import pair_paths
    from neox_train.data.store import TokenStore

    store = TokenStore.open(folder, split)
    if not store.num_documents:
        filled = [name for name, held in load_manifest(folder).splits.items() if held.documents]
        raise DataError(
            f"the split `{split}` of {folder} has no document, and nothing to train on would be written; "
            f"name one that has with --split: {', '.join(filled) or 'none has'}"
        )
    there = [str(path) for path in pair_paths(prefix) if path.exists()]
    if there and not overwrite:
        raise DataError(f"{' and '.join(there)} exist already; name another prefix, or replace them with --overwrite")
    for path in export_mmap(store, prefix, vocab_size=load_manifest(folder).vocab_size):
        typer.echo(str(path))


def import_(
    folder: Annotated[Path, typer.Argument(help="Dataset folder to write.")],
    tokenizer: Annotated[Path, typer.Option(help="The tokenizer.json that made the ids.")],
    train: Annotated[Path | None, typer.Option(help="Path of the train files without .bin and .idx.")] = None,
    validation: Annotated[Path | None, typer.Option(help="The same for the validation files.")] = None,
    test: Annotated[Path | None, typer.Option(help="The same for the test files.")] = None,
    end_of_document: Annotated[str, typer.Option(help="Text of the end-of-document token.")] = "<|endoftext|>",
) -> None:
    """Make a dataset folder of .bin/.idx files."""
    from neox_train.data.mmap_import import import_mmap
    from neox_train.data.tokenize import describe

    given = {"train": train, "validation": validation, "test": test}
    prefixes = {split: prefix for split, prefix in given.items() if prefix is not None}
    if not prefixes:
        raise ConfigError("no files to import; give at least --train PREFIX")
    manifest = import_mmap(prefixes, tokenizer, DatasetFolder(folder), eod_token=end_of_document, report=typer.echo)
    typer.echo(f"{folder}: {describe(manifest)}")


def tokenizer(
    target: Annotated[Path, typer.Argument(help="The tokenizer.json to write.")],
    gpt2: Annotated[
        tuple[Path, Path] | None, typer.Option(help="vocab.json and merges.txt of a GPT-2 tokenizer.")
    ] = None,
    tiktoken: Annotated[Path | None, typer.Option(help="A .tiktoken rank file.")] = None,
    pattern: Annotated[
        str, typer.Option(help="For tiktoken: gpt2, cl100k_base, o200k_base or a regular expression.")
    ] = "gpt2",
    end_of_document_id: Annotated[int | None, typer.Option(help="For tiktoken: its id, if not the next.")] = None,
    sentencepiece: Annotated[Path | None, typer.Option(help="A SentencePiece .model, BPE or unigram.")] = None,
    byte: Annotated[bool, typer.Option("--byte", help="One token a byte; end of document 256.")] = False,
    character: Annotated[
        bool, typer.Option("--character", help="GPT-NeoX's CharLevelTokenizer: one token a byte; end of document 0.")
    ] = False,
    end_of_document: Annotated[str, typer.Option(help="Text of the end-of-document token.")] = "<|endoftext|>",
) -> None:
    """Write a tokenizer of another format as the tokenizer.json that a dataset's `tokenizer.file` names."""
    from neox_train.data import tokenizer_formats as formats
    from neox_train.files import write_text

    if sum(given is not None for given in (gpt2, tiktoken, sentencepiece)) + byte + character != 1:
        raise ConfigError(
            "one of --gpt2 VOCAB MERGES, --tiktoken FILE, --sentencepiece FILE, --byte and --character is wanted"
        )
    if gpt2 is not None:
        made = formats.read_gpt2(*gpt2, end_of_document)
    elif tiktoken is not None:
        made = formats.read_tiktoken(tiktoken, pattern, end_of_document, end_of_document_id)
    elif sentencepiece is not None:
        from neox_train.data.sentencepiece_model import read_sentencepiece

        made = read_sentencepiece(sentencepiece, end_of_document)
    elif character:
        made = formats.make_character_tokenizer(end_of_document)
    else:
        made = formats.make_byte_tokenizer(end_of_document)
    write_text(target, made.to_str(pretty=True) + "\n")
    typer.echo(f"{target}: {made.get_vocab_size()} tokens, {end_of_document} is {made.token_to_id(end_of_document)}")
