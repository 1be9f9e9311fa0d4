"""Reads GPT-NeoX YAML files into one resolved configuration, and writes one back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from neox_train.config.conflict import ConflictError
from neox_train.config.derive import derive_values
from neox_train.config.extra_args import check_extra_args
from neox_train.config.fp8 import check_fp8
from neox_train.config.keys import find_refused, read_remedy
from neox_train.config.layer_kinds import BUILT_LAYERS, OTHER_FAMILIES, find_layer_kinds
from neox_train.config.merge import merge_documents, set_overrides
from neox_train.config.normalise import normalise_literals, replace_retired, restore_text
from neox_train.config.notices import list_notices
from neox_train.config.reader import Document, read_yaml, show_value
from neox_train.config.schema import NeoxConfig, NeoxKeys
from neox_train.config.sections.derived import DerivedKeys
from neox_train.config.validation import explain_validation
from neox_train.errors import ConfigError, NotBuiltError
from neox_train.files import write_text

_ONLY_DERIVED = frozenset(DerivedKeys.model_fields) - frozenset(NeoxKeys.model_fields)


def load_config(
    files: Sequence[Path | str],
    *,
    overrides: Mapping[str, Any] | None = None,
    world_size: int | None = None,
) -> NeoxConfig:
    """Merge files, in which a key has one value, lay ``overrides`` on top, check and derive everything.

    ``world_size`` is the number of processes; else the files' world_size or global_num_gpus, else
    those of one replica.
    Raises ConfigError, one sentence with file and line, for anything that cannot be used as written.
    """
    if not files:
        raise ConfigError("no configuration file is given; name at least one YAML file")
    document = merge_documents([read_yaml(path, fold_hyphens=True) for path in files], overrides or ())
    if overrides:
        document = set_overrides(document, overrides)
    return resolve_document(document, world_size=world_size)


def resolve_document(document: Document, *, world_size: int | None = None) -> NeoxConfig:
    """Check the merged keys and derive the rest."""
    document, renamed = replace_retired(restore_text(document))
    values = normalise_literals(document.values)
    written = {key: values.pop(key) for key in _ONLY_DERIVED & values.keys()}
    _check_world(document, world_size)
    try:
        keys = NeoxKeys.model_validate(values)
        DerivedKeys.model_validate(written)
    except ValidationError as error:
        _require_built_layers(document)
        explained = explain_validation(error, NeoxConfig, document.places, document.file)
        raise ConfigError(" | ".join([*_list_unbuilt(document), str(explained)])) from None
    try:
        derived = derive_values(keys, world_size, written.get("vocab_size"))
        config = NeoxConfig.model_validate({**keys.model_dump(), **derived})
        check_extra_args(config)
        check_fp8(config)
    except ConflictError as conflict:
        _require_built_layers(document)
        raise conflict.locate(document.places, document.file) from None
    _check_written(document, written, derived)
    config._places = document.places
    if "data_parallel_size" in written:
        return config
    return config.with_notices(*renamed, *list_notices(config, keys))


def write_config(config: NeoxConfig, path: Path | str) -> None:
    """Write every key atomically as YAML; ``load_config([path])`` gives an equal configuration."""
    write_text(Path(path), dump_yaml(config.to_dict()))


def dump_yaml(values: Mapping[str, Any]) -> str:
    """YAML text, keys in the given order."""
    return yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True, width=110)


def _require_built_layers(document: Document) -> None:
    """Say first of a file that cannot be used that it is of another family, whose other keys mean nothing here."""
    others = sorted(find_layer_kinds(document.values.get("attention_config")) & OTHER_FAMILIES)
    if others:
        place = document.places.get("attention_config", document.file)
        raise NotBuiltError(
            f"{place}: attention_config names {', '.join(others)}, which is not built; {', '.join(BUILT_LAYERS)} are"
        )


def _list_unbuilt(document: Document) -> list[str]:
    """Keys of what is not built, which may be why another of the file's values is none that is known here."""
    return [
        f"{document.places.get(name, document.file)}: {name} is not built ({read_remedy(field)})"
        for name, field in find_refused(NeoxKeys.model_fields, document.values)
    ]


def _check_world(document: Document, world_size: int | None) -> None:
    written = document.values.get("world_size")
    if world_size is not None and isinstance(written, int) and written != world_size:
        raise ConfigError(
            f"{document.places.get('world_size', document.file)}: world_size is {written}, but {world_size} processes "
            "are started; remove the key"
        )


def _check_written(document: Document, written: Mapping[str, Any], derived: Mapping[str, Any]) -> None:
    for key, value in written.items():
        if value is not None and key in derived and value != derived[key]:
            raise ConfigError(
                f"{document.places.get(key, document.file)}: {key} is {show_value(value)}, but the other keys give "
                f"{show_value(derived[key])}; remove {key}, it is derived"
            )
