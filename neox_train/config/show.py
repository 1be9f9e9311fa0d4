"""A resolved configuration as a person reads it: grouped, the derived values first."""

from __future__ import annotations

from pydantic import BaseModel

from neox_train.config.load import dump_yaml
from neox_train.config.schema import SECTIONS, NeoxConfig
from neox_train.config.sections.derived import DerivedKeys


def render_config(config: NeoxConfig) -> str:
    """YAML in groups, each under a comment; reading it back gives an equal configuration."""
    values = config.to_dict()
    parts = []
    groups: list[tuple[str, type[BaseModel]]] = [("Derived from the keys below", DerivedKeys), *SECTIONS]
    for title, section in groups:
        group = {key: values.pop(key) for key in section.model_fields if key in values}
        if group:
            parts.append(f"# {title}\n{dump_yaml(group)}")
    return "\n".join(parts)
