"""The optimizer and ZeRO blocks with every default written out."""

from __future__ import annotations

from typing import Any

from neox_train.config.conflict import ConflictError
from neox_train.config.nearest import ask_nearest

_ADAM_FAMILY = ("adam", "adamw", "onebitadam", "zerooneadam", "onebitlamb", "cpu_adam", "cpu_torch_adam")
_ADAM_DEFAULTS = {"lr": 0.001, "betas": [0.9, 0.999], "eps": 1e-8}
OPTIMIZER_KINDS = (*_ADAM_FAMILY, "sgd", "sm3", "madgrad_wd", "lion", "muon")
"""Every kind GPT-NeoX names, in small letters, Muon, and DeepSpeed's 1-bit optimizers."""

ZERO_DEFAULTS: dict[str, Any] = {
    "stage": 0,
    "allgather_partitions": True,
    "reduce_scatter": True,
    "allgather_bucket_size": 500_000_000,
    "reduce_bucket_size": 500_000_000,
    "overlap_comm": False,
    "contiguous_gradients": True,
}


def fill_optimizer(optimizer: dict[str, Any] | None) -> dict[str, Any]:
    """``{"type", "params"}`` with lr, and for the Adam family betas and eps; raises ConflictError on a bad block."""
    if optimizer is None:
        return {"type": "Adam", "params": dict(_ADAM_DEFAULTS)}
    for key in ("type", "params"):
        if key not in optimizer:
            raise ConflictError(f"optimizer has no {key}; write both type and params (with lr)", "optimizer")
    kind = optimizer["type"].lower()
    if kind not in OPTIMIZER_KINDS:
        raise ConflictError(
            f"optimizer.type is '{optimizer['type']}'; one of {', '.join(OPTIMIZER_KINDS)} is wanted"
            + ask_nearest(kind, OPTIMIZER_KINDS),
            "optimizer.type",
        )
    if "weight_decay" in optimizer["params"]:
        raise ConflictError(
            f"optimizer.params.weight_decay is {optimizer['params']['weight_decay']}; set weight_decay at the top "
            "level instead",
            "optimizer.params.weight_decay",
        )
    defaults = dict(_ADAM_DEFAULTS) if kind in _ADAM_FAMILY else {"lr": 0.001}
    params = {**defaults, **optimizer["params"]}
    betas = params.get("betas")
    if betas is not None and (len(betas) != 2 or not all(0 <= beta < 1 for beta in betas)):
        raise ConflictError(
            f"optimizer.params.betas is {betas}; two numbers from 0 up to, not including, 1 are wanted",
            "optimizer.params.betas",
        )
    if params.get("nesterov") and (not params.get("momentum") or params.get("dampening")):
        raise ConflictError(
            "optimizer.params.nesterov: true needs a momentum and no dampening; set momentum: 0.9 and remove dampening",
            "optimizer.params.nesterov",
        )
    return {"type": optimizer["type"], "params": params}


def fill_zero(zero: dict[str, Any] | None) -> dict[str, Any]:
    """The ZeRO block with stage, bucket sizes and switches written out; raises ConflictError when stage is missing."""
    if zero is not None and "stage" not in zero:
        raise ConflictError("zero_optimization has no stage; write stage: 0, 1, 2 or 3", "zero_optimization")
    return {**ZERO_DEFAULTS, **(zero or {})}
