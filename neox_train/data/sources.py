"""The files a corpus is read from: found by globs, in a stable order, and recorded to notice change."""

from __future__ import annotations

import errno
import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from neox_train.data.manifest import Sources
from neox_train.data.patterns import expand_pattern, find_barrier
from neox_train.data.saved_dataset import list_saved_dataset
from neox_train.errors import DataError
from neox_train.files import read_json, sha256_file, sha256_json, write_json

if TYPE_CHECKING:
    from neox_train.config.pipeline import SourceSpec

SOURCES_NAME = "sources.json"
SourceFormat = Literal["text", "jsonl", "parquet", "arrow"]
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
_JSON_LINES = (".jsonl", ".ndjson", ".json")
_TABLES: dict[str, SourceFormat] = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow"}
_NOT_TEXT = {".bin": "a token file", ".idx": "a token index"}
_ARCHIVES = (".tar", ".tgz", ".tbz", ".tbz2", ".txz", ".tzst", ".zip", ".7z", ".rar")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One corpus file; ``name`` is how sentences and records call it."""

    name: str
    path: Path
    format: SourceFormat


def list_sources(source: SourceSpec) -> list[SourceFile]:
    """Files of a corpus, sorted by name within each glob; raises DataError where a glob matches nothing.

    None comes twice, also when links lead to it by several names: the first name counts. A folder that may not be read
    is a DataError too, as its files would be missing from the tokens without a word.
    """
    if source.kind == "python_stdlib":
        from neox_train.data.python_stdlib import list_modules

        return list_modules()
    paths: dict[Path, Path] = {}
    for pattern in source.files:
        try:
            found = _expand(pattern)
        except OSError as error:
            place = find_barrier(Path(error.filename or pattern))
            raise DataError(
                f"`source.files`: {place} cannot be read ({error.strerror}), and {pattern} asks for what is in it; "
                "give read permission, or name what is to be read"
            ) from error
        for path in found:
            paths.setdefault(path.resolve(), path)
    return [SourceFile(str(path), path, _decide_format(path, source.format)) for path in paths.values()]


def tell_hard_links(files: Sequence[SourceFile]) -> list[str]:
    """One sentence where files are one and the same under several names: each name is read."""
    first: dict[tuple[int, int], SourceFile] = {}
    repeated: list[tuple[SourceFile, SourceFile]] = []
    for file in files:
        stat = file.path.stat()
        if stat.st_nlink > 1:
            known = first.setdefault((stat.st_dev, stat.st_ino), file)
            if known is not file:
                repeated.append((known, file))
    if not repeated:
        return []
    known, other = repeated[0]
    return [
        f"warning: {known.name} and {other.name} are one file by a hard link, and it is read under both names "
        f"({len(repeated)} files are read again so); leave one out of `source.files` unless it is to count twice"
    ]


def _expand(pattern: str) -> list[Path]:
    found = expand_pattern(pattern)
    places = list(found)
    for folder in (path for path in found if path.is_dir()):
        saved = list_saved_dataset(folder)
        places.extend(_list_below(folder, set()) if saved is None else saved)
    for path in places:
        if _is_link_to_nothing(path):
            raise DataError(f"{path} is a link to a file that is not there; bring its target back or remove the link")
    files = [path for path in places if path.is_file()]
    if not files:
        what = "matches no file" if glob.has_magic(pattern) else "is not there"
        if found:
            what = "is a folder without files"
        bracket = ", or write [[] where the name itself has a [" if "[" in pattern else ""
        raise DataError(f"`source.files`: {pattern} {what} (looked from {Path.cwd()}); correct the path{bracket}")
    return files


def _list_below(folder: Path, seen: set[Path]) -> Iterator[Path]:
    """Files below a folder in the order of their names, those of linked folders too; hidden names are left out."""
    place = folder.resolve()
    if place in seen:
        return
    seen.add(place)
    for path in sorted(folder.iterdir()):
        if not path.name.startswith("."):
            if path.is_dir():
                yield from _list_below(path, seen)
            else:
                yield path


def _is_link_to_nothing(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:
        # A link that leads to itself has no file either.
        if error.errno not in (errno.ENOENT, errno.ELOOP):
            raise
        return True
    return False


def _decide_format(path: Path, wanted: str) -> SourceFormat:
    name = path.name.lower()
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    suffix = Path(name).suffix
    if suffix in _ARCHIVES:
        raise DataError(explain_archive(str(path)))
    if wanted != "auto":
        return cast(SourceFormat, wanted)
    if suffix in _NOT_TEXT:
        raise DataError(
            f"{path} is {_NOT_TEXT[suffix]} by its name; text, JSON lines, Parquet or Arrow are wanted: "
            "narrow the glob of `source.files`, or convert the file"
        )
    if suffix in _TABLES:
        if name != path.name.lower():
            raise DataError(f"{path} is a table inside another compression; decompress it, tables have their own")
        return _TABLES[suffix]
    return "jsonl" if name.endswith(_JSON_LINES) else "text"


def explain_archive(name: str) -> str:
    """The sentence for a file that holds files."""
    return (
        f"{name} is an archive of files, whose names and gaps are no text; unpack it and name its folder in "
        "`source.files`"
    )


def fingerprint_sources(files: Sequence[SourceFile]) -> list[dict[str, Any]]:
    """Name, size, time of last change and SHA-256 of every file."""
    return [
        {"name": file.name, "bytes": stat.st_size, "changed_ns": stat.st_ctime_ns, "sha256": _hash(file)}
        for file in files
        for stat in [file.path.stat()]
    ]


def _hash(file: SourceFile) -> str:
    try:
        return sha256_file(file.path)
    except OSError as error:
        raise DataError(f"{file.name} cannot be read ({error.strerror}); give read permission or correct it") from error


def summarise_sources(records: Sequence[dict[str, Any]]) -> Sources:
    """What the manifest says of the sources; times are no part of the digest."""
    content = [[record["name"], record["bytes"], record["sha256"]] for record in records]
    return Sources(files=len(content), bytes=sum(record["bytes"] for record in records), digest=sha256_json(content))


def write_sources(folder: Path, records: Sequence[dict[str, Any]]) -> None:
    """Write ``sources.json`` beside the manifest."""
    write_json(folder / SOURCES_NAME, {"files": list(records)})


def find_change(folder: Path, files: Sequence[SourceFile]) -> str | None:
    """What differs between ``files`` and those that ``sources.json`` records, or None.

    A file whose size and time of last change are as recorded is taken as unchanged; otherwise its hash decides.
    """
    try:
        records = (read_json(folder / SOURCES_NAME) or {})["files"]
        known = {record["name"]: record for record in records}
    except (ValueError, KeyError, TypeError):
        return f"{SOURCES_NAME} is missing or damaged"
    if list(known) != [file.name for file in files]:
        return "the list of source files changed"
    for file in files:
        record, stat = known[file.name], file.path.stat()
        if stat.st_size == record["bytes"] and stat.st_ctime_ns == record["changed_ns"]:
            continue
        if stat.st_size != record["bytes"] or _hash(file) != record["sha256"]:
            return f"{file.name} changed"
    return None
