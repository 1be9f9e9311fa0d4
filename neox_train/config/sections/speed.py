"""Keys of speed: they choose between implementations of one arithmetic and are new here."""

from __future__ import annotations

from pydantic import BaseModel

from neox_train.config.keys import implemented


class SpeedKeys(BaseModel):
    """Implementations that are faster on a GPU; left out, each is on there and off on a CPU."""

    torch_compile: bool | None = implemented(
        None, "New here: compile each transformer block with torch.compile; default on with a GPU below ZeRO stage 3."
    )
    flat_master_weights: bool | None = implemented(
        None,
        "New here: fp32 master weights in one buffer a group, stepped without waiting for the GPU; default on with a "
        "GPU for Adam in bfloat16 at ZeRO stages 0 and 1.",
    )
    loss_chunk_tokens: int | None = implemented(
        None, "New here: tokens whose logits exist at a time, 0 for all; default 8192 with a GPU, else 0.", ge=0
    )
