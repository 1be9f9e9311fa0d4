"""The trainer's own state that travels in a checkpoint, beside weights, optimizer and random number streams."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(kw_only=True)
class TrainerState:
    """Position and records of a training run; every value is JSON, losses finite or None."""

    step: int = 0
    """Optimizer steps done (skipped ones included)."""
    consumed_samples: int = 0
    skipped_steps: int = 0
    last_validation_loss: float | None = None
    best_validation_loss: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    """Further JSON values the trainer wants back unchanged."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainerState:
        """The state that ``to_dict`` gave."""
        return cls(**values)
