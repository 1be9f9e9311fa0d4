"""What one key means, in a few lines."""

from __future__ import annotations

from neox_train.config.annotations import find_annotation, list_names
from neox_train.config.block_meanings import FREE_NAMES
from neox_train.config.block_table import read_block_entry
from neox_train.config.key_table import read_entry
from neox_train.config.nearest import ask_nearest
from neox_train.config.retired import RETIRED
from neox_train.config.schema import NeoxConfig, NeoxKeys
from neox_train.config.validation import describe_unknown_key
from neox_train.errors import ConfigError


def explain_key(key: str) -> str:
    """Type, default, meaning and status of a key; raises ConfigError with the nearest name for an unknown one.

    A dotted key (``optimizer.params.betas``) names a value inside a block.
    """
    name, *inner = key.replace("-", "_").split(".")
    if inner:
        return _explain_inner([name, *inner])
    if name in RETIRED:
        return f"{name}\n  {RETIRED[name].sentence}"
    fields = {**NeoxConfig.model_fields, **NeoxKeys.model_fields}
    if name not in fields:
        raise ConfigError(describe_unknown_key(name, fields))
    entry = read_entry(name)
    lines = [
        name,
        f"  meaning: {entry.meaning}",
        f"  type:    {entry.type}",
        f"  default: {entry.default}",
        f"  status:  {entry.state}",
    ]
    if entry.remedy:
        lines.append(f"  instead: {entry.remedy}")
    if inner := _list_inner([name]):
        lines.append(f"  keys:    {', '.join(inner)}")
    return "\n".join(lines)


def _explain_inner(path: list[str]) -> str:
    name = ".".join(path)
    if name not in FREE_NAMES and find_annotation(NeoxKeys, path) is None:
        known, read = list_names(NeoxKeys, path[:-1]), _list_inner(path[:-1])
        if not known and read:
            near = ask_nearest(path[-1], read)
            raise ConfigError(f"{name} is not read; what is read of {'.'.join(path[:-1])}: {', '.join(read)}{near}")
        if not known and path[0] in NeoxKeys.model_fields:
            raise ConfigError(f"{name}: the names inside {path[0]} are not listed; explain {path[0]}")
        raise ConfigError(describe_unknown_key(name, known))
    entry = read_block_entry(name)
    lines = [entry.path, f"  meaning: {entry.meaning}", f"  type:    {entry.type}"]
    if entry.default:
        lines.append(f"  default: {entry.default}")
    lines.append(f"  status:  {entry.status}")
    if entry.remedy:
        lines.append(f"  instead: {entry.remedy}")
    if inner := _list_inner(path):
        lines.append(f"  keys:    {', '.join(inner)}")
    return "\n".join([*lines, f"  block:   {'.'.join(path[:-1])}"])


def _list_inner(path: list[str]) -> list[str]:
    """Names known inside the block at ``path``; empty where it is no block, or any name goes."""
    head = ".".join(path) + "."
    known = list_names(NeoxKeys, path) if find_annotation(NeoxKeys, path) is not None else []
    return known or [name.removeprefix(head) for name in FREE_NAMES if name.startswith(head)]
