"""Keys of number formats and activation checkpointing."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from neox_train.config.keys import harmless, implemented, refused
from neox_train.config.sections.whole import Whole


class Fp16Block(TypedDict, total=False):
    """fp16 and its loss scale (0: dynamic)."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)  # type: ignore[misc]

    enabled: bool
    fp16: bool
    type: str
    auto_cast: bool
    loss_scale: Annotated[float, Field(ge=0)]
    loss_scale_window: Annotated[Whole, Field(ge=1)]
    initial_scale_power: Annotated[Whole, Field(ge=0, le=126)]
    hysteresis: Annotated[Whole, Field(ge=1)]
    consecutive_hysteresis: bool
    min_loss_scale: Annotated[float, Field(ge=0)]


class Bf16Block(TypedDict, total=False):
    """bfloat16; old files have the names of the fp16 block here too."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)  # type: ignore[misc]

    enabled: bool
    bf16: bool
    type: str
    loss_scale: Annotated[float, Field(ge=0)]
    loss_scale_window: Annotated[Whole, Field(ge=1)]
    initial_scale_power: Annotated[Whole, Field(ge=0, le=126)]
    hysteresis: Annotated[Whole, Field(ge=1)]
    min_loss_scale: Annotated[float, Field(ge=0)]


class DataTypesBlock(TypedDict, total=False):
    """Number format of gradient accumulation."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)  # type: ignore[misc]

    grad_accum_dtype: Literal["fp32", "fp16", "bf16"] | None


class PrecisionKeys(BaseModel):
    """Number formats and loss scaling."""

    precision: Literal["fp16", "fp32", "bfloat16"] | None = implemented(
        None, "Number format of weights and matrix products; default from the fp16 and bf16 blocks, else fp32."
    )
    fp16: Fp16Block | None = implemented(None, "fp16 and its loss scale.")
    bf16: Bf16Block | None = implemented(None, "bfloat16.")
    amp: dict[str, Any] | None = refused(None, "Apex AMP.", remedy="remove it and set precision: bfloat16")
    data_types: DataTypesBlock | None = implemented(None, "Number format of gradient accumulation; default fp32.")
    loss_scale: float | None = harmless(None, "Set loss_scale in the fp16 block.")
    dynamic_loss_scale: bool = harmless(False, "Computed: the fp16 block's loss_scale 0 is dynamic.")
    loss_scale_window: float = harmless(1000.0, "Set loss_scale_window in the fp16 block.")
    min_scale: float = harmless(1.0, "Set min_loss_scale in the fp16 block.")
    hysteresis: int = harmless(2, "Set hysteresis in the fp16 block.")


class ActivationCheckpointingKeys(BaseModel):
    """Recomputing activations in the backward pass instead of keeping them."""

    checkpoint_activations: bool = implemented(False, "Recompute each layer in the backward pass.")
    checkpoint_num_layers: int = implemented(1, "Layers recomputed together.", ge=1)
    checkpoint_granularity: Literal["full", "selective"] = implemented(
        "full",
        "New here: what checkpoint_activations recomputes: whole layers, or selective: all but matrix products and "
        "attention, whose results are kept.",
    )
    deepspeed_activation_checkpointing: bool = harmless(True, "DeepSpeed's implementation; torch's is used.")
    activation_checkpointing: dict[str, Any] | None = harmless(None, "DeepSpeed's block of the same.")
    partition_activations: bool = implemented(
        False, "Share the kept inputs of recomputed layers over tensor-parallel ranks (without sequence_parallel)."
    )
    synchronize_each_layer: bool = harmless(False, "Synchronise after each layer: only slower.")
    contiguous_checkpointing: bool = harmless(False, "Kept activations in one buffer.")
    checkpoint_in_cpu: bool = implemented(False, "Keep the inputs of recomputed layers in CPU memory.")
    profile_backward: bool = harmless(False, "Time the backward pass.")
