"""The number format in force, read off ``precision`` and the fp16 and bf16 blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

from neox_train.config.conflict import ConflictError

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

Precision = Literal["fp32", "fp16", "bfloat16"]

FP16_DEFAULTS: dict[str, Any] = {
    "enabled": True,
    "loss_scale": 0.0,
    "initial_scale_power": 16,
    "loss_scale_window": 1000,
    "hysteresis": 2,
    "min_loss_scale": 1.0,
}
"""DeepSpeed's defaults, written out; loss_scale 0 is dynamic."""

WITHOUT_EFFECT = ("fp16", "bf16", "type")
"""Keys of old GPT-NeoX files inside the blocks; ``enabled`` decides, and ``fp16.type: bfloat16`` says of what."""


def derive_precision(precision: str | None, fp16: dict[str, Any] | None, bf16: dict[str, Any] | None) -> Precision:
    """fp16 or bfloat16 where a block enables it or ``precision`` says so, else fp32; conflicts raise ConflictError."""
    if fp16 is not None and "enabled" not in fp16:
        raise ConflictError("the fp16 block does not say enabled; add enabled: true or enabled: false", "fp16")
    half, brain = _read_switch(fp16), _read_switch(bf16)
    if half and names_bfloat16(fp16):
        if precision == "fp16":
            raise ConflictError(
                "precision is fp16, but fp16.type is bfloat16; make them agree", "precision", "fp16.type"
            )
        half, brain = None, True
    if half and brain:
        raise ConflictError(
            "fp16.enabled and bf16.enabled are both true; enable one of them", "fp16.enabled", "bf16.enabled"
        )
    for name, block, switch in (("fp16", "fp16", half), ("bfloat16", "bf16", brain)):
        if precision is not None and switch is not None and switch != (precision == name):
            raise ConflictError(
                f"precision is {precision}, but {block}.enabled is {str(switch).lower()}; make them agree",
                "precision",
                f"{block}.enabled",
            )
    if precision is not None:
        return cast(Precision, precision)
    return "fp16" if half else "bfloat16" if brain else "fp32"


def names_bfloat16(fp16: Mapping[str, Any] | None) -> bool:
    """Whether the block is of the time when GPT-NeoX had bfloat16 as a type of it, as in Pythia 1B's file."""
    return bool(fp16 and fp16.get("enabled") and fp16.get("type") == "bfloat16")


def _read_switch(block: dict[str, Any] | None) -> bool | None:
    return None if block is None else block.get("enabled")


def fill_fp16(fp16: dict[str, Any] | None, precision: Precision) -> dict[str, Any] | None:
    """The fp16 block with every default written out; as it was when fp16 is not in force."""
    if precision != "fp16":
        return fp16
    return {**FP16_DEFAULTS, **(fp16 or {}), "enabled": True}


def wants_wide_sums(config: NeoxConfig) -> bool:
    """Whether bf16 gradients of several micro-batches are to add up in fp32."""
    return (
        config.precision == "bfloat16"
        and config.gradient_accumulation_steps > 1
        and (config.data_types or {}).get("grad_accum_dtype") == "fp32"
    )
