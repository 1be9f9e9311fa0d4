"""The dataset card: documents, tokens and bytes of each split, the tokenizer, where the text came from."""

from __future__ import annotations

from neox_train.monitoring.markup import Html, element
from neox_train.monitoring.quantities import (
    format_bytes,
    format_count,
    format_decimal,
    format_integer,
    format_percent,
    is_number,
)
from neox_train.monitoring.report.facts import mapping, number
from neox_train.monitoring.report.inputs import DatasetInputs, Json
from neox_train.monitoring.report.tables import write_pairs, write_table


def write_dataset(dataset: DatasetInputs) -> Html:
    """One dataset's card."""
    if not dataset.manifest:
        reason = dataset.failure.get("sentence") or "Not tokenised yet."
        body: list[object] = [element("p", reason, class_="empty")]
    else:
        body = [_write_tiles(dataset.manifest), _write_splits(dataset.manifest), _write_details(dataset.manifest)]
    return element("section", element("h2", f"Dataset {dataset.name}"), body, class_="card")


def _write_tiles(manifest: Json) -> Html:
    splits = _splits(manifest)
    size = sum(number(split, "bytes") or 0 for split in splits.values())
    tokens = sum(number(split, "tokens") or 0 for split in splits.values())
    documents = sum(number(split, "documents") or 0 for split in splits.values())
    tiles = [
        (format_integer(documents), "documents"),
        (format_count(tokens), "tokens"),
        (format_bytes(size), "of text"),
        (format_integer(number(manifest, "vocab_size")), "vocabulary"),
        (format_decimal(size / tokens, 2) if tokens else "–", "bytes per token"),
    ]
    shown = [element("div", element("b", value), element("span", name)) for value, name in tiles]
    return element("div", shown, class_="tiles")


def _write_splits(manifest: Json) -> Html:
    splits = _splits(manifest)
    total = sum(number(split, "bytes") or 0 for split in splits.values())
    rows = [
        [
            name,
            *(format_integer(number(split, key)) for key in ("documents", "tokens", "bytes")),
            format_percent((number(split, "bytes") or 0) / total if total else None),
        ]
        for name, split in splits.items()
    ]
    return write_table(("Split", "Documents", "Tokens", "Bytes", "Share of bytes"), rows)


def _write_details(manifest: Json) -> Html:
    spec = mapping(manifest, "spec")
    rows = [
        ("source", _describe(spec.get("source"))),
        ("source files", format_integer(number(mapping(manifest, "sources"), "files"))),
        ("tokenizer", _describe(spec.get("tokenizer"))),
        ("end of document", manifest.get("eod_token")),
        ("left out", _describe_dropped(mapping(manifest, "dropped"))),
        ("stored as", manifest.get("dtype")),
        ("tokenizer SHA-256", manifest.get("tokenizer_sha256")),
        ("dataset digest", manifest.get("digest")),
    ]
    summary = element("summary", "Source, tokenizer and digests")
    return element("details", summary, write_pairs(rows), style="margin-top:12px")


def _splits(manifest: Json) -> dict[str, Json]:
    return {name: split for name, split in mapping(manifest, "splits").items() if isinstance(split, dict)}


def _describe(value: object) -> str | None:
    if not isinstance(value, dict):
        return str(value) if value is not None else None
    return ", ".join(f"{key}: {item}" for key, item in value.items() if item not in (None, []))


def _describe_dropped(dropped: Json) -> str:
    counts = {key: value for key, value in dropped.items() if is_number(value) and value}
    parts = [f"{format_integer(value)} {key.replace('_', ' ')}" for key, value in counts.items()]
    skipped = number(mapping(dropped, "skipped"), "count")
    if skipped:
        parts.append(f"{format_integer(skipped)} unreadable")
    return ", ".join(parts) or "nothing"
