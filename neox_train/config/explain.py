"""What one key means, in a few lines."""

from __future__ import annotations

from typing import Any

from neox_train.config.keys import read_remedy, read_status
from neox_train.config.reader import show_value
from neox_train.config.retired import RETIRED
from neox_train.config.schema import NeoxConfig, NeoxKeys
from neox_train.config.validation import describe_unknown_key
from neox_train.errors import ConfigError

_STATUS = {
    "implemented": "in force",
    "harmless": "accepted, without effect here",
    "refused": "known, not built: training refuses any value but the default",
    "derived": "computed from other keys",
}


def explain_key(key: str) -> str:
    """Type, default, meaning and status of a key; raises ConfigError with the nearest name for an unknown one."""
    name = key.replace("-", "_")
    if name in RETIRED:
        return f"{name}\n  {RETIRED[name].sentence}"
    fields = {**NeoxConfig.model_fields, **NeoxKeys.model_fields}
    if name not in fields:
        raise ConfigError(describe_unknown_key(name, fields))
    field = fields[name]
    default = "required" if field.is_required() else show_value(field.get_default(call_default_factory=True))
    lines = [
        name,
        f"  meaning: {field.description}",
        f"  type:    {_name_type(field.annotation)}",
        f"  default: {default}",
        f"  status:  {_STATUS[read_status(field)]}",
    ]
    remedy = read_remedy(field)
    if remedy:
        lines.append(f"  instead: {remedy}")
    return "\n".join(lines)


def _name_type(annotation: Any) -> str:
    if isinstance(annotation, type):
        return annotation.__name__
    return str(annotation).replace("typing.", "").replace("neox_train.config.sections.", "")
