"""What one key means, in a few lines."""

from __future__ import annotations

from neox_train.config.key_table import read_entry
from neox_train.config.retired import RETIRED
from neox_train.config.schema import NeoxConfig, NeoxKeys
from neox_train.config.validation import describe_unknown_key
from neox_train.errors import ConfigError


def explain_key(key: str) -> str:
    """Type, default, meaning and status of a key; raises ConfigError with the nearest name for an unknown one."""
    name = key.replace("-", "_")
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
