"""What one key means, in a few lines."""

from __future__ import annotations

from neox_train.config.annotations import find_annotation, list_names
from neox_train.config.block_table import read_block_entry
from neox_train.config.key_table import read_entry
from neox_train.config.retired import RETIRED
from neox_train.config.schema import NeoxConfig, NeoxKeys
from neox_train.config.validation import describe_unknown_key
from neox_train.errors import ConfigError


def explain_key(key: str) -> str:
    """Type, default, meaning and status of a key; raises ConfigError with the nearest name for an unknown one.

    A dotted key (``optimizer.params.betas``) names a value inside a block: its own entry, and the block's.
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
    return "\n".join(lines)


def _explain_inner(path: list[str]) -> str:
    annotation = find_annotation(NeoxKeys, path)
    if annotation is None:
        known = list_names(NeoxKeys, path[:-1])
        if not known and path[0] in NeoxKeys.model_fields:
            raise ConfigError(f"{'.'.join(path)}: the names inside {path[0]} are not listed; explain {path[0]}")
        raise ConfigError(describe_unknown_key(".".join(path), known))
    entry = read_block_entry(".".join(path))
    lines = [entry.path, f"  type:    {entry.type}"]
    if entry.default:
        lines.append(f"  default: {entry.default}")
    lines.append(f"  status:  {entry.status}")
    if entry.remedy:
        lines.append(f"  instead: {entry.remedy}")
    return "\n".join([*lines, f"  part of {explain_key(path[0])}"])
