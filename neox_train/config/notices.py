"""Sentences printed once for keys that are set and have no effect here."""

from __future__ import annotations

from neox_train.config.keys import read_status
from neox_train.config.schema import NeoxConfig, NeoxKeys


def list_notices(config: NeoxConfig) -> list[str]:
    """One sentence for each harmless key whose value is not its default."""
    sentences = []
    for name, field in NeoxKeys.model_fields.items():
        if name in NeoxConfig.model_fields and read_status(field) == "harmless":
            value = getattr(config, name)
            if value != field.get_default(call_default_factory=True) and name in config.places:
                sentences.append(f"{config.places[name]}: {name} has no effect here ({field.description})")
    return sentences
