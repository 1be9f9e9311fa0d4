"""One entry for a key inside a block: what ``config explain`` prints and docs/configuration.md lists."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from typing_extensions import is_typeddict

from neox_train.config.annotations import find_annotation, list_names, list_options
from neox_train.config.block_meanings import (
    FREE_NAMES,
    MEANINGS,
    PARAM_DEFAULTS,
    ZERO_DEFAULTS_OF_DEEPSPEED,
)
from neox_train.config.key_table import name_type
from neox_train.config.optimizer import ZERO_DEFAULTS
from neox_train.config.passed_over import PASSED_OVER_PARAMS
from neox_train.config.precision import FP16_DEFAULTS, WITHOUT_EFFECT
from neox_train.config.reader import show_value
from neox_train.config.refusals import BLOCK_REFUSALS
from neox_train.config.schema import NeoxKeys
from neox_train.config.support import OPTIMIZER_PARAMS, SUPPORTED
from neox_train.config.voids import OWN_CHECKPOINTS, VOIDS

_DEFAULTS: dict[str, dict[str, Any]] = {
    "fp16": {**FP16_DEFAULTS, "auto_cast": False, "consecutive_hysteresis": False},
    "zero_optimization": {**ZERO_DEFAULTS_OF_DEEPSPEED, **ZERO_DEFAULTS},
    "data_types": {"grad_accum_dtype": "fp32"},
}
_REQUIRED = {
    "optimizer.type": "required in the block; Adam without it",
    "optimizer.params": "required in the block",
    "fp16.enabled": "required in the block; precision decides without it",
    "bf16.enabled": "as precision says",
    "zero_optimization.stage": "required in the block; 0 without it",
    "zero_optimization.stage3_allgather_sequential": "false; true on CPUs",
}
_BUILT = {"zero_optimization.stage": "zero_stage", "optimizer.type": "optimizer_type"}


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockEntry:
    """What one key inside a block is."""

    path: str
    type: str
    meaning: str
    default: str
    """Empty where there is none: of names that are refused or have no effect."""
    status: str
    remedy: str = ""
    """What to write instead of a refused key, or nothing."""


def read_block_entry(path: str) -> BlockEntry:
    """The entry of a dotted path; KeyError where its name is not known."""
    if path in FREE_NAMES:
        kind, default, meaning = FREE_NAMES[path]
        return BlockEntry(path=path, type=kind, meaning=meaning, default=default, status="in force")
    annotation = find_annotation(NeoxKeys, path.split("."))
    if annotation is None:
        raise KeyError(path)
    block, _, name = path.rpartition(".")
    refusal = BLOCK_REFUSALS.get(path)
    return BlockEntry(
        path=path,
        type=name_type(annotation),
        meaning=MEANINGS[path],
        default=_say_default(path, block, name),
        status=_say_status(path, block, name),
        remedy=refusal.remedy if refusal else "",
    )


def list_blocks() -> Iterator[tuple[str, str, list[BlockEntry]]]:
    """Path, one-line meaning and entries of every block whose names are known."""
    for name, field in NeoxKeys.model_fields.items():
        yield from _walk(name, field.annotation)


def _walk(path: str, annotation: Any) -> Iterator[tuple[str, str, list[BlockEntry]]]:
    kind = next((option for option in list_options(annotation) if is_typeddict(option)), None)
    if kind is None:
        return
    names = [f"{path}.{name}" for name in list_names(NeoxKeys, path.split("."))]
    inner = {name: find_annotation(NeoxKeys, name.split(".")) for name in names}
    plain = [name for name in names if not any(is_typeddict(option) for option in list_options(inner[name]))]
    yield path, inspect.getdoc(kind) or "", [read_block_entry(name) for name in plain]
    for name in names:
        yield from _walk(name, inner[name])


def _say_default(path: str, block: str, name: str) -> str:
    if path in _REQUIRED:
        return _REQUIRED[path]
    if block == "optimizer.params":
        return PARAM_DEFAULTS.get(name, "")
    values = _DEFAULTS.get(block, {})
    return show_value(values[name]) if name in values else ""


def _say_status(path: str, block: str, name: str) -> str:
    if path in BLOCK_REFUSALS:
        is_number = find_annotation(NeoxKeys, path.split(".")) is float or name == "weight_decay"
        return f"refused: {BLOCK_REFUSALS[path].reason}" + "; values that switch nothing on are accepted" * (
            not is_number
        )
    if path in _BUILT:
        return f"in force; built: {', '.join(str(value) for value in SUPPORTED[_BUILT[path]])}"
    if block == "optimizer.params":
        return _say_param(name)
    if path == "fp16.type":
        return "accepted: bfloat16 trains in bfloat16, as in GPT-NeoX's old files; any other value is without effect"
    if block in ("fp16", "bf16") and name in WITHOUT_EFFECT:
        return "accepted, without effect here: enabled alone decides"
    if block == "bf16" and name != "enabled":
        return "accepted, without effect here: bfloat16 needs no loss scale"
    if OWN_CHECKPOINTS in VOIDS.get(path, ()):
        return "accepted, without effect here: checkpoints are this project's own, not DeepSpeed's"
    return "in force"


def _say_param(name: str) -> str:
    readers = [kind for kind, params in OPTIMIZER_PARAMS.items() if name in params]
    if readers:
        return f"in force; read by: {', '.join(readers)}; the others refuse it"
    passing = [kind for kind, params in PASSED_OVER_PARAMS.items() if name in params]
    only_true = "; false is refused" if name in ("adam_w_mode", "bias_correction") else ""
    return f"accepted, without effect here, by: {', '.join(passing)}{only_true}; the others refuse it"
