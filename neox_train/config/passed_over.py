"""Parameters of optimizers that are read and have no effect."""

from __future__ import annotations

from neox_train.config.one_bit import ONE_BIT_TYPES

ADAM_KINDS = ("adam", "adamw", "cpu_adam", "cpu_torch_adam")
PASSED_OVER_PARAMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(ADAM_KINDS, ("torch_adam", "adam_w_mode", "bias_correction")),
    **dict.fromkeys(ONE_BIT_TYPES.values(), ("comm_backend_name", "cuda_aware")),
}
"""By optimizer: of Adam those that say what is done anyway, of 1-bit optimizers those that choose a library for the
exchange, which is this project's own."""
