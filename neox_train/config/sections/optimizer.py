"""Keys of the optimizer, the learning rate and gradients."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from neox_train.config.keys import implemented, refused


class OptimizerParams(TypedDict, total=False):
    """Numbers of the optimizer, under the names of the kinds GPT-NeoX builds."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)  # type: ignore[misc]

    lr: Annotated[float, Field(ge=0)]
    betas: list[float]
    eps: Annotated[float, Field(ge=0)]
    weight_decay: float
    momentum: Annotated[float, Field(ge=0, lt=1)]
    dampening: Annotated[float, Field(ge=0, lt=1)]
    nesterov: bool
    ns_steps: Annotated[int, Field(ge=1, lt=100)]
    amsgrad: bool
    bias_correction: bool
    adam_w_mode: bool
    torch_adam: bool
    freeze_step: Annotated[int, Field(ge=1)]
    var_freeze_step: Annotated[int, Field(ge=1)]
    var_update_scaler: Annotated[int, Field(ge=1)]
    local_step_scaler: Annotated[int, Field(ge=1)]
    local_step_clipper: Annotated[int, Field(ge=1)]
    max_coeff: Annotated[float, Field(gt=0)]
    min_coeff: Annotated[float, Field(gt=0)]
    cuda_aware: bool
    comm_backend_name: str
    beta: float
    amp_stable: bool


class OptimizerBlock(TypedDict, total=False):
    """``type`` and ``params``."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)  # type: ignore[misc]

    type: str
    params: OptimizerParams


class OptimizerKeys(BaseModel):
    """The optimizer and what happens to gradients before it."""

    optimizer: OptimizerBlock | None = implemented(
        None,
        "Optimizer: type (Adam, SGD, Lion, Muon, CPU_Adam, OneBitAdam, ZeroOneAdam, OneBitLamb) and params (lr, betas, "
        "...); default Adam at lr 0.001.",
    )
    weight_decay: float = implemented(0.1, "Decay of matrices and embeddings; biases and norms do not decay.", ge=0)
    gradient_clipping: float = implemented(
        1.0, "Largest gradient norm, taken literally; 0 switches clipping off.", ge=0
    )
    use_bnb_optimizer: bool = implemented(
        False, "Adam or Lion with 8-bit states, by bitsandbytes; those of embeddings keep 32 bits."
    )
    bnb_paged: bool = implemented(
        False, "New here: with use_bnb_optimizer, let CUDA move optimizer states to the host when the GPU is full."
    )
    scheduler: dict[str, Any] | None = refused(
        None, "DeepSpeed's own scheduler.", remedy="remove it and set lr_decay_style, warmup and lr_decay_iters"
    )
    prescale_gradients: bool = implemented(False, "Divide gradients before they are summed over ranks.")
    gradient_predivide_factor: float = implemented(1.0, "Divide gradients by this before they are summed.", gt=0)
    sparse_gradients: bool | Literal["auto"] = implemented(
        False,
        "Of the word embeddings' gradient send only rows that some replica touched; auto sends all where most are.",
    )
    fp32_allreduce: bool = implemented(False, "Sum gradients over ranks in fp32.")
    communication_data_type: Literal["fp32", "fp16", "bf16", "bfp16"] | None = implemented(
        None, "Number format of gradient communication; bfp16 is bf16's older name."
    )


_SCHEDULE = (
    "remove it; a resumed run takes the schedule of its configuration, and a changed one is refused until it is allowed"
)


class ScheduleKeys(BaseModel):
    """Learning rate over the run."""

    min_lr: float = implemented(0.0, "Lowest learning rate.", ge=0)
    lr_decay_style: Literal["constant", "linear", "cosine", "exponential", "wsd", "inverse_sqrt"] = implemented(
        "linear", "Shape of the decay; wsd (warm-up, stable, decay) and inverse_sqrt are new here."
    )
    wsd_decay_fraction: float = implemented(
        0.1, "New here: share of lr_decay_iters at its end that wsd decays over, linearly to min_lr.", gt=0, le=1
    )
    lr_decay_iters: int | None = implemented(None, "Steps the decay takes; default train_iters.", ge=1)
    lr_decay_fraction: float | None = implemented(None, "Share of train_iters the decay takes.", gt=0, le=1)
    warmup: float = implemented(0.01, "Share of lr_decay_iters that warms up.", ge=0, le=1)
    override_lr_scheduler: bool = refused(False, "On resume take the schedule of the configuration.", remedy=_SCHEDULE)
    use_checkpoint_lr_scheduler: bool = refused(
        False, "On resume take the schedule of the checkpoint.", remedy=_SCHEDULE
    )
