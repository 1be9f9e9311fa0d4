"""A hang told from the ranks' flight recorders: which rank, which collective, which step."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from neox_train.monitoring.flight_recorder import Dump

Entry = dict[str, Any]


def summarise(dumps: Sequence[Dump]) -> list[str]:
    """One sentence a finding: ranks without a dump, steps, and for every group who waits in what for whom."""
    lines = [*_tell_missing(dumps), *_tell_steps(dumps)]
    found = [line for group in _list_groups(dumps) for line in _tell_group(group, dumps)]
    found += [line for dump in dumps for line in _tell_messages(dump)]
    return [*lines, *(found or ["no collective is under way: the ranks wait outside of communication"])]


def describe_collective(entry: Entry) -> str:
    """Kind, number in its group, shapes and number format, and the line of code that called it."""
    kind = str(entry.get("profiling_name", "")).split(":", 1)[-1] or "collective"
    number = entry.get("p2p_seq_id" if entry.get("is_p2p") else "collective_seq_id")
    shapes = " ".join(str(list(shape)) for shape in entry.get("input_sizes") or [])
    kinds = "/".join(sorted({str(dtype) for dtype in entry.get("input_dtypes") or []}))
    what = f"{kind} number {number} of group {_name_group(entry)} ({shapes} {kinds})"
    place = _find_caller(entry)
    return f"{what}, called at {place}" if place else what


def is_under_way(entry: Entry) -> bool:
    """Whether the collective was entered and is not known to have ended."""
    return not entry.get("retired") and entry.get("state") != "completed"


def find_pending(entries: Sequence[Entry]) -> Entry | None:
    """The first collective that has not ended."""
    return next((entry for entry in entries if is_under_way(entry)), None)


def _tell_missing(dumps: Sequence[Dump]) -> Iterator[str]:
    known = {dump.rank for dump in dumps}
    named = {rank for dump in dumps for group in dump.groups.values() for rank in _read_ranks(group)}
    for rank in sorted(named - known):
        yield f"rank {rank} left no dump: it ended before the others gave up, or its node is gone"


def _tell_steps(dumps: Sequence[Dump]) -> Iterator[str]:
    steps = {dump.rank: dump.step for dump in dumps if dump.step is not None}
    if not steps:
        return
    last = max(steps.values())
    behind = [f"rank {rank} after {step}" for rank, step in steps.items() if step < last]
    yield f"the ranks stopped in step {last + 1}" + (f", {', '.join(behind)}" if behind else "")


def _list_groups(dumps: Sequence[Dump]) -> list[str]:
    return sorted({_group_of(entry) for dump in dumps for entry in dump.entries})


def _tell_group(group: str, dumps: Sequence[Dump]) -> Iterator[str]:
    """Who is behind in a group's order of collectives, or does another one than its peers."""
    last: dict[int, Entry] = {}
    for dump in dumps:
        for entry in dump.entries:
            if _group_of(entry) == group and not entry.get("is_p2p"):
                last[dump.rank] = entry
    waiting = {rank: entry for rank, entry in last.items() if is_under_way(entry)}
    if not waiting:
        return
    front = max(int(entry["collective_seq_id"]) for entry in last.values())
    ahead = [rank for rank, entry in last.items() if int(entry["collective_seq_id"]) == front]
    first = last[ahead[0]]
    behind = [rank for rank in last if rank not in ahead]
    # A rank that has not yet entered anything of this group has no record of it: its dump, not its group, tells of it.
    members = _members_of(group, dumps) or set(last)
    silent = sorted((members & {dump.rank for dump in dumps}) - set(last))
    if late := sorted([*behind, *silent]):
        yield f"{_name(late)} did not enter {describe_collective(first)}, in which {_name(ahead)} waited"
        return
    kinds = {rank: (last[rank].get("profiling_name"), str(last[rank].get("input_sizes"))) for rank in ahead}
    if len(set(kinds.values())) > 1:
        each = "; ".join(f"rank {rank} {describe_collective(last[rank])}" for rank in ahead)
        yield f"the ranks disagree on collective number {front}: {each}"
    else:
        absent = sorted(members - set(last))
        whom = f"; {_name(absent)} left no dump" if absent else ": a link or a GPU did not carry it through"
        yield f"{_name(ahead)} waited in {describe_collective(first)}{whom}"


def _tell_messages(dump: Dump) -> Iterator[str]:
    pending = [entry for entry in dump.entries if entry.get("is_p2p") and is_under_way(entry)]
    if pending:
        yield f"rank {dump.rank} waited in {describe_collective(pending[0])}"


def _group_of(entry: Entry) -> str:
    return str((entry.get("process_group") or ("?",))[0])


def _name_group(entry: Entry) -> str:
    name, description = (*(entry.get("process_group") or ("?",)), "")[:2]
    return f"{description}" if description not in ("", "undefined") else f"{name}"


def _members_of(group: str, dumps: Sequence[Dump]) -> set[int]:
    """Ranks of a group: as the recorders list them, where they do."""
    return {rank for dump in dumps for rank in _read_ranks(dump.groups.get(group) or {})}


def _read_ranks(group: dict[str, Any]) -> list[int]:
    try:
        return [int(rank) for rank in json.loads(str(group.get("ranks", "[]")))]
    except (ValueError, TypeError):
        return []


def _find_caller(entry: Entry) -> str:
    """Innermost frame of this project, or of whoever called torch."""
    frames = [frame for frame in entry.get("frames") or [] if "torch/distributed" not in str(frame.get("filename"))]
    own = [frame for frame in frames if "neox_train" in str(frame.get("filename")) and frame.get("name") != "observe"]
    own = [frame for frame in own if not str(frame.get("filename")).endswith("traffic.py")]
    for frame in own or frames:
        return f"{Path(str(frame['filename'])).name}:{frame['line']} {frame['name']}"
    return ""


def _name(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
