"""The kinds of optimizer and ZeRO stage that the distributed tests cover, as configuration overrides.

ZeRO 3 comes last: DeepSpeed then replaces torch's linear function for the rest of the process, which changes the
last bits of engines built after it.
"""

from __future__ import annotations

from typing import Any


def _stage(stage: int, **zero: Any) -> dict[str, Any]:
    return {"zero_optimization": {"stage": stage, **zero}}


_BF16 = {"precision": "bfloat16"}
_BF16_GRADIENTS = {**_BF16, "data_types": {"grad_accum_dtype": "bf16"}}
_FLAT = {**_BF16, "flat_master_weights": True}
_EIGHT_BIT = {"use_bnb_optimizer": True}
_LION = {"optimizer": {"type": "Lion", "params": {"lr": 0.001}}}
_MUON = {"optimizer": {"type": "Muon", "params": {"lr": 0.01}}}

EXACT: dict[str, dict[str, Any]] = {
    "fp32-zero0": _stage(0),
    "fp32-zero1": _stage(1),
    "fp32-zero2": _stage(2),
    "fp32-zero2-round-robin": _stage(2, round_robin_gradients=True),
    "bf16-zero0": {**_stage(0), **_BF16_GRADIENTS},
    "bf16-zero0-muon": {**_stage(0), **_BF16_GRADIENTS, **_MUON},
    "bf16-zero1": {**_stage(1), **_BF16},
    "bf16-zero1-muon": {**_stage(1), **_BF16, **_MUON},
    "bf16-zero1-bf16-gradients": {**_stage(1), **_BF16_GRADIENTS},
    "bf16-zero2": {**_stage(2), **_BF16},
    "fp32-zero2-muon": {**_stage(2), **_MUON},
    "bf16-zero0-flat": {**_stage(0), **_FLAT},
    "bf16-zero1-flat": {**_stage(1), **_FLAT},
    "fp32-zero3": _stage(3),
    "bf16-zero3": {**_stage(3), **_BF16},
    "bf16-zero3-muon": {**_stage(3), **_BF16, **_MUON},
}
EIGHT_BIT: dict[str, dict[str, Any]] = {
    "8bit-zero0": {**_stage(0), **_EIGHT_BIT},
    "8bit-zero1": {**_stage(1), **_EIGHT_BIT},
    "8bit-lion-zero2": {**_stage(2), **_EIGHT_BIT, **_LION},
    "8bit-zero3": {**_stage(3), **_EIGHT_BIT},
}
OPTIMIZER = {
    "fp32-zero0": "AdamW",
    "fp32-zero1": "DeepSpeedZeroOptimizer",
    "fp32-zero2": "DeepSpeedZeroOptimizer",
    "fp32-zero2-round-robin": "DeepSpeedZeroOptimizer",
    "bf16-zero0": "FP16_UnfusedOptimizer",
    "bf16-zero0-muon": "FP16_UnfusedOptimizer",
    "bf16-zero1": "BF16_Optimizer",
    "bf16-zero1-muon": "BF16_Optimizer",
    "bf16-zero1-bf16-gradients": "DeepSpeedZeroOptimizer",
    "bf16-zero2": "DeepSpeedZeroOptimizer",
    "fp32-zero2-muon": "DeepSpeedZeroOptimizer",
    "bf16-zero0-flat": "FlatMasters",
    "bf16-zero1-flat": "FlatMasters",
    "fp32-zero3": "DeepSpeedZeroOptimizer_Stage3",
    "bf16-zero3": "DeepSpeedZeroOptimizer_Stage3",
    "bf16-zero3-muon": "DeepSpeedZeroOptimizer_Stage3",
}
