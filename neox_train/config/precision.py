"""The number format in force, read off ``precision`` and the fp16 and bf16 blocks."""

from __future__ import annotations

from typing import Any, Literal

from neox_train.config.conflict import ConflictError

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

_WITHOUT_EFFECT = ("fp16", "type")
"""Keys of old GPT-NeoX files inside the block; ``enabled`` alone decides."""


def derive_precision(precision: str | None, fp16: dict[str, Any] | None, bf16: dict[str, Any] | None) -> Precision:
    """fp16 or bfloat16 where a block enables it or ``precision`` says so, else fp32; conflicts raise ConflictError."""
    if fp16 is not None and "enabled" not in fp16:
        raise ConflictError("the fp16 block does not say enabled; add enabled: true or enabled: false", "fp16")
    named = {
        "fp16": bool(fp16 and fp16.get("enabled")),
        "bfloat16": bool(bf16 and bf16.get("enabled")),
    }
    if all(named.values()):
        raise ConflictError("the fp16 and bf16 blocks are both enabled; enable one of them", "fp16", "bf16")
    chosen: Precision = "fp16" if named["fp16"] else "bfloat16" if named["bfloat16"] else "fp32"
    if precision is None:
        return chosen
    if chosen not in ("fp32", precision):
        block = "fp16" if chosen == "fp16" else "bf16"
        raise ConflictError(
            f"precision is {precision}, but the {block} block is enabled; make them agree", "precision", block
        )
    return "fp16" if precision == "fp16" else "bfloat16" if precision == "bfloat16" else "fp32"


def fill_fp16(fp16: dict[str, Any] | None, precision: Precision) -> dict[str, Any] | None:
    """The fp16 block with every default written out; as it was when fp16 is not in force."""
    if precision != "fp16":
        return fp16
    written = {key: value for key, value in (fp16 or {}).items() if key not in _WITHOUT_EFFECT}
    return {**FP16_DEFAULTS, **written, "enabled": True}
