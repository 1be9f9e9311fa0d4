"""Which keys decide what a run learns: the digest that tells whether a checkpoint belongs to a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neox_train.config.sections.logging import LoggingKeys
from neox_train.config.sections.parallel import LaunchKeys, ParallelKeys
from neox_train.config.sections.training import CheckpointKeys, DataKeys, EvaluationKeys

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

_SECTIONS_LEFT_OUT = (LoggingKeys, LaunchKeys, ParallelKeys, CheckpointKeys, DataKeys, EvaluationKeys)
_KEPT = frozenset({"seed", "deterministic", "deepspeed_extra_args", "finetune"})
_LEFT_OUT = frozenset(
    {
        "train_iters",
        "data_parallel_size",
        "train_micro_batch_size_per_gpu",
        "gradient_accumulation_steps",
        "batch_size",
        "padded_vocab_size",
        "num_workers",
        "exit_interval",
        "fused_kernels_build_path",
    }
)


def select_training_relevant(config: NeoxConfig) -> dict[str, Any]:
    """Keys whose change makes another training: all but length, logging, evaluation, saving, paths and launching.

    The layout over processes is left out too: the global batch and the order of the data do not depend on it. Data and
    tokenizer have digests of their own.
    """
    dropped = _LEFT_OUT.union(*(section.model_fields for section in _SECTIONS_LEFT_OUT)) - _KEPT
    return {key: value for key, value in sorted(config.to_dict().items()) if key not in dropped}
