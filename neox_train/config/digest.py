"""Which keys decide what a run learns: the digest that tells whether a checkpoint belongs to a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neox_train.config.decay_span import follows_length
from neox_train.config.fp8 import FP8_PARAMETERS, uses_fp8
from neox_train.config.keys import read_status
from neox_train.config.sections.data import DataKeys
from neox_train.config.sections.logging import LoggingKeys, MonitorKeys, ProfilingKeys
from neox_train.config.sections.parallel import LaunchKeys, ParallelKeys
from neox_train.config.sections.speed import SpeedKeys
from neox_train.config.sections.training import CheckpointKeys, EvaluationKeys

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

_SECTIONS_LEFT_OUT = (
    LoggingKeys,
    MonitorKeys,
    ProfilingKeys,
    LaunchKeys,
    ParallelKeys,
    CheckpointKeys,
    DataKeys,
    EvaluationKeys,
    SpeedKeys,
)
_KEPT = frozenset({"seed", "deterministic", "eod_mask_loss", "pack_impl"})
_LENGTH_AND_LAYOUT = frozenset(
    {
        "train_iters",
        "train_epochs",
        "exit_interval",
        "data_parallel_size",
        "train_micro_batch_size_per_gpu",
        "gradient_accumulation_steps",
        "padded_vocab_size",
    }
)
_SAID_BY_DERIVED_VALUES = frozenset(
    {
        "attention_config",
        "intermediate_size",
        "expansion_factor",
        "mlp_multiple_of",
        "layernorm_epsilon",
        "rms_norm_epsilon",
        "scalenorm_epsilon",
        "zero_stage",
        "make_vocab_size_divisible_by",
    }
)


BACKENDS = frozenset(
    {"te_mha", "te_layernorm_mlp", "te_columnparallel", "te_rowparallel", "bias_gelu_fusion", "rope_fusion"}
)
"""Keys that say who computes a layer: the same architecture, and the same checkpoint, with either."""


def select_training_relevant(config: NeoxConfig) -> dict[str, Any]:
    """Keys whose change makes another training: all but length, logging, validation, saving, paths, launching and
    choices of implementation.

    The layout over processes is left out too: the global batch and the order of the data do not depend on it. Keys
    without effect are left out, and keys whose meaning a derived value already says. Data and tokenizer have digests
    of their own. A decay that follows train_iters counts by its fraction alone (``lr_decay_iters`` None), any other by
    its steps: a longer training is not another one.
    """
    sections = frozenset[str]().union(*(section.model_fields for section in _SECTIONS_LEFT_OUT)) - _KEPT
    dropped = sections | BACKENDS | _LENGTH_AND_LAYOUT | _SAID_BY_DERIVED_VALUES
    if not uses_fp8(config):
        dropped |= frozenset(FP8_PARAMETERS)
    fields = type(config).model_fields
    values = config.to_dict()
    values["lr_decay_iters" if follows_length(values) else "lr_decay_fraction"] = None
    values["norm"] = config.norm.removeprefix("te_")
    selected = {
        key: value
        for key, value in sorted(values.items())
        if key not in dropped and read_status(fields[key]) != "harmless"
    }
    if config.activation == "gelu" and (config.bias_gelu_fusion or config.te_layernorm_mlp):
        selected["activation"] = "gelu_tanh"
    return selected
