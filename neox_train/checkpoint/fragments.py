"""Fragments: 1-D slices of flattened parameters, and where each one lies in a checkpoint's files.

A parameter is flattened whole, or per tensor-parallel shard along its ``shard_dim``; every rank stores the slices it
owns. What is stored does not depend on the number of data-parallel ranks or on the ZeRO stage.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from neox_train.errors import CheckpointError
from neox_train.files import read_json, write_json

FRAGMENTS_NAME = "fragments.json"
MASTER = "master"
"""The state name of fp32 weights; the others are the optimizer's own (``exp_avg`` ...)."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """Elements ``start`` to ``start + length`` of one flattened shard of a parameter."""

    state: str
    name: str
    start: int
    length: int
    shard: int = 0
    shards: int = 1

    @property
    def key(self) -> str:
        """Its tensor's name in the safetensors file."""
        return f"{self.state}:{self.name}:{self.shard}of{self.shards}:{self.start}"

    @classmethod
    def parse(cls, key: str, length: int) -> Fragment:
        """The fragment of a key; neither parameter nor state names hold a colon."""
        state, name, place, start = key.split(":")
        shard, shards = place.split("of")
        return cls(state, name, int(start), length, int(shard), int(shards))


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a stored fragment: ``length`` elements from ``offset`` of tensor ``key``, to land at ``start``."""

    file: str
    key: str
    offset: int
    length: int
    start: int


class FragmentIndex:
    """Every fragment of a checkpoint and the file that holds it."""

    def __init__(self, stored: Iterable[tuple[Fragment, str]]) -> None:
        def place(entry: tuple[Fragment, str]) -> tuple[str, str, int, int]:
            fragment = entry[0]
            return fragment.state, fragment.name, fragment.shard, fragment.start

        self._entries = sorted(stored, key=place)
        self._by_shard: dict[tuple[str, str, int], list[tuple[Fragment, str]]] = defaultdict(list)
        for fragment, file in self._entries:
            self._by_shard[fragment.state, fragment.name, fragment.shard].append((fragment, file))

    def states(self, name: str) -> list[str]:
        """Names of the states stored for a parameter (``master``, ``exp_avg`` ...)."""
        return sorted({state for state, stored, _ in self._by_shard if stored == name})

    def shards(self, name: str) -> int:
        """Number of tensor-parallel shards a parameter was stored in."""
        entries = self._by_shard.get((MASTER, name, 0))
        if not entries:
            raise CheckpointError(
                f"the checkpoint holds no weights of {name}; it is of another model, "
                "use the configuration it was trained with"
            )
        return entries[0][0].shards

    def length(self, state: str, name: str, shard: int) -> int:
        """Number of stored elements of one shard; 0 for one that is all vocabulary padding."""
        entries = self._by_shard.get((state, name, shard), [])
        return max((fragment.start + fragment.length for fragment, _ in entries), default=0)

    def find(self, state: str, name: str, start: int, length: int, *, shard: int = 0) -> Iterator[Piece]:
        """The pieces that make up a slice, in order; CheckpointError where an element is in no file."""
        position, stop = start, start + length
        for fragment, file in self._by_shard.get((state, name, shard), []):
            end = fragment.start + fragment.length
            if end <= position or fragment.start > position or position >= stop:
                continue
            taken = min(end, stop) - position
            yield Piece(file, fragment.key, position - fragment.start, taken, position - start)
            position += taken
        if position < stop:
            raise CheckpointError(
                f"the checkpoint lacks elements {position} to {stop} of {name} ({state}); use another checkpoint"
            )

    def write(self, folder: Path) -> None:
        """Write the index as JSON: for each file the keys of its fragments and their lengths."""
        files: dict[str, dict[str, int]] = defaultdict(dict)
        for fragment, file in self._entries:
            files[file][fragment.key] = fragment.length
        write_json(Path(folder) / FRAGMENTS_NAME, files)

    @classmethod
    def read(cls, folder: Path) -> FragmentIndex:
        """Read the index of a checkpoint."""
        files = read_json(Path(folder) / FRAGMENTS_NAME)
        if not isinstance(files, dict):
            raise CheckpointError(f"{folder}: {FRAGMENTS_NAME} is missing; use another checkpoint")
        return cls(
            (Fragment.parse(key, length), file) for file, lengths in files.items() for key, length in lengths.items()
        )
