"""What one key means, in a few lines."""

from __future__ import annotations

from neox_train.config.annotations import find_annotation, list_names
from neox_train.config.key_table import name_type, read_entry
from neox_train.config.optimizer import ZERO_DEFAULTS
from neox_train.config.reader import show_value
from neox_train.config.retired import RETIRED
from neox_train.config.schema import NeoxConfig, NeoxKeys
from neox_train.config.support import OPTIMIZER_PARAMS, SUPPORTED
from neox_train.config.validation import describe_unknown_key
from neox_train.errors import ConfigError


def explain_key(key: str) -> str:
    """Type, default, meaning and status of a key; raises ConfigError with the nearest name for an unknown one.

    A dotted key (``optimizer.params.betas``) names a value inside a block: its own type, and the block's entry.
    """
    name, *inner = key.split(".")
    name = name.replace("-", "_")
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
    lines = [".".join(path), f"  type:    {name_type(annotation)}", *_list_inner_facts(path)]
    return "\n".join([*lines, f"  part of {explain_key(path[0])}"])


def _list_inner_facts(path: list[str]) -> list[str]:
    block, last = ".".join(path[:-1]), path[-1]
    if block == "zero_optimization":
        default = [f"  default: {show_value(ZERO_DEFAULTS[last])}"] if last in ZERO_DEFAULTS else []
        return [*default, *([_show_built("zero_stage")] if last == "stage" else [])]
    if block == "optimizer.params":
        readers = [kind for kind, params in OPTIMIZER_PARAMS.items() if last in params]
        return [f"  read by: {', '.join(readers) or 'no optimizer that is built'}"]
    return [_show_built("optimizer_type")] if block == "optimizer" and last == "type" else []


def _show_built(name: str) -> str:
    return f"  built:   {', '.join(str(value) for value in SUPPORTED[name])}"
