"""Keys inside blocks that training refuses, with why and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neox_train.config.keys import is_off
from neox_train.config.reader import show_value

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig


@dataclass(frozen=True, slots=True)
class BlockRefusal:
    """A key inside a block with which no training starts, unless its value is ``off`` or switches nothing on."""

    reason: str
    remedy: str
    off: object = None

    def is_off(self, value: Any) -> bool:
        """Whether a value asks for nothing."""
        return is_off(value) or (self.off is not None and bool(value == self.off))


_OLD_OFFLOAD = BlockRefusal(
    "DeepSpeed 0.19.6 has a block for it", "set zero_optimization.offload_optimizer: {device: cpu}"
)
_OF_SM3 = BlockRefusal("it belongs to SM3, which is not built", "remove it")
_MICS = BlockRefusal("MiCS is not built", "remove it; zero_hpz_partition_size keeps weights inside nodes", off=-1)

BLOCK_REFUSALS: dict[str, BlockRefusal] = {
    "zero_optimization.cpu_offload": _OLD_OFFLOAD,
    "zero_optimization.cpu_offload_param": _OLD_OFFLOAD,
    "zero_optimization.cpu_offload_use_pin_memory": _OLD_OFFLOAD,
    "zero_optimization.zenflow": BlockRefusal("ZenFlow is not built", "remove it; offload_optimizer works without it"),
    "zero_optimization.zero_quantized_nontrainable_weights": BlockRefusal("every weight is trained here", "remove it"),
    "zero_optimization.zeropp_loco_param": BlockRefusal(
        "LoCo is not built", "remove it; zero_quantized_gradients works without it"
    ),
    "zero_optimization.mics_shard_size": _MICS,
    "zero_optimization.mics_hierarchical_params_gather": _MICS,
    "zero_optimization.legacy_stage1": BlockRefusal("DeepSpeed 0.19.6 has no old stage 1", "remove it"),
    "zero_optimization.elastic_checkpoint": BlockRefusal(
        "DeepSpeed's checkpoints are not used", "remove it; checkpoints load at any layout here"
    ),
    "zero_optimization.leaf_module": BlockRefusal("no module here needs it", "remove it"),
    "optimizer.params.weight_decay": BlockRefusal(
        "weight decay stands at the top level", "set weight_decay outside the optimizer block"
    ),
    "optimizer.params.amsgrad": BlockRefusal("AMSGrad is not built", "remove it"),
    "optimizer.params.beta": _OF_SM3,
    "optimizer.params.amp_stable": _OF_SM3,
}
"""By dotted path. ``optimizer.params`` has more that single optimizers do not read."""


def list_block_refusals(config: NeoxConfig, block: str) -> list[str]:
    """One phrase for each refused key of ``block`` (a top-level name) that is switched on."""
    values: dict[str, Any] = dict(getattr(config, block) or {})
    return [
        f"{path}: {show_value(values[name])} ({refusal.reason}; {refusal.remedy})"
        for path, refusal in BLOCK_REFUSALS.items()
        for name in [path.removeprefix(block + ".")]
        if name in values and not refusal.is_off(values[name])
    ]


def drop_refused(block: str, values: dict[str, Any]) -> dict[str, Any]:
    """``values`` of ``block`` without the refused keys, which can only be off."""
    return {name: value for name, value in values.items() if f"{block}.{name}" not in BLOCK_REFUSALS}
