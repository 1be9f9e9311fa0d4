"""Sentences printed once: keys that are set without effect, and numbers that act otherwise than in GPT-NeoX."""

from __future__ import annotations

from neox_train.config.fp8 import FP8_PARAMETERS, uses_fp8
from neox_train.config.keys import read_status
from neox_train.config.schema import NeoxConfig, NeoxKeys


def list_notices(config: NeoxConfig) -> list[str]:
    """One sentence for each thing a person should know about the configuration."""
    return [
        *_list_harmless(config),
        *_note_sparsity(config),
        *_note_without_effect(config),
        *_note_fp8(config),
        *_note_clipping(config),
    ]


def _list_harmless(config: NeoxConfig) -> list[str]:
    sentences = []
    for name, field in NeoxKeys.model_fields.items():
        if name not in config.places or name in FP8_PARAMETERS or read_status(field) != "harmless":
            continue
        if getattr(config, name) != field.get_default(call_default_factory=True):
            sentences.append(f"{config.places[name]}: {name} has no effect here: {field.description}")
    return sentences


def _note_sparsity(config: NeoxConfig) -> list[str]:
    if "sparsity_config" not in config.places or not config.sparsity_config or "local" in config.attention_layers:
        return []
    return [f"{config.places['sparsity_config']}: sparsity_config has no effect here: no layer is local"]


def _note_without_effect(config: NeoxConfig) -> list[str]:
    """Switches that another key leaves nothing to do."""
    kept = (not config.checkpoint_activations, "checkpoint_activations is false")
    alone = (config.model_parallel_size == 1, "model_parallel_size is 1")
    reasons = {
        "partition_activations": [kept, alone, (config.sequence_parallel, "sequence_parallel shares them out already")],
        "checkpoint_in_cpu": [kept],
        "sequence_parallel": [alone],
        "sliding_window_width": [(set(config.attention_layers) == {"local"}, "every layer is local")],
    }
    sentences = []
    for name, candidates in reasons.items():
        reason = next((reason for holds, reason in candidates if holds), None)
        if reason and name in config.places and getattr(config, name):
            sentences.append(f"{config.places[name]}: {name} has no effect here: {reason}")
    return sentences


def _note_fp8(config: NeoxConfig) -> list[str]:
    written = [name for name in FP8_PARAMETERS if name in config.places]
    if not written or uses_fp8(config):
        return []
    return [
        f"{config.places[written[0]]}: {', '.join(written)} do not switch FP8 on by themselves; "
        "te_fp8: true, te_fp8_recipe or te_fp8_mha: true does"
    ]


def _note_clipping(config: NeoxConfig) -> list[str]:
    if config.gradient_clipping != 1.0:
        return []
    return [
        "gradient_clipping 1.0 is in force; GPT-NeoX drops this one value and trains without clipping, "
        "which is gradient_clipping: 0 here"
    ]
