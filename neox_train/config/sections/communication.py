"""Keys of what data-parallel ranks send each other; all are new here."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from neox_train.config.keys import implemented


class CommunicationKeys(BaseModel):
    """How gradients, or what takes their place, are made smaller for slow links."""

    gradient_compression: Literal[
        "none", "auto", "bf16", "fp16", "powersgd", "local_update", "onebit_adam", "zero_one_adam", "onebit_lamb"
    ] = implemented(
        "none",
        "New here: what travels between replicas in place of gradients; bf16 and fp16 the same numbers in 16 bits, "
        "powersgd low-rank factors of them, local_update the weights' change over local_update_steps (DiLoCo), "
        "onebit_adam, zero_one_adam and onebit_lamb the signs that these optimizers exchange in place of Adam; auto "
        "measures the links when training starts or resumes and takes none, bf16, powersgd or local_update.",
    )
    powersgd_rank: int = implemented(4, "New here: rank of powersgd's factors of each matrix.", ge=1)
    powersgd_start_step: int = implemented(
        100, "New here: steps with whole gradients before powersgd begins; the warm-up's length or more.", ge=2
    )
    local_update_steps: int | None = implemented(
        None,
        "New here: steps each replica takes by itself before local_update averages; by default a twentieth of the "
        "steps that are left after local_update_start_step, 50 at most.",
        ge=1,
    )
    local_update_start_step: int | None = implemented(
        None,
        "New here: steps with whole gradients before local_update begins; by default a fifth of the training and no "
        "less than the learning rate's warm-up. Its paper begins at 0.",
        ge=0,
    )
    local_update_lr: float = implemented(0.7, "New here: learning rate of local_update's outer step.", gt=0)
    local_update_momentum: float | None = implemented(
        None,
        "New here: Nesterov momentum of local_update's outer step; by default 0.7 for twenty outer steps, up to its "
        "paper's 0.9 from sixty on.",
        ge=0,
        lt=1,
    )
