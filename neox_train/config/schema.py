"""The one schema: every GPT-NeoX key with its default, and the values derived from them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, PrivateAttr

from neox_train.config.reader import Place
from neox_train.config.sections.attention import AttentionKeys, OtherLayerKeys, TransformerEngineKeys
from neox_train.config.sections.communication import CommunicationKeys
from neox_train.config.sections.data import DataKeys, PreferenceDataKeys
from neox_train.config.sections.deepspeed import DeepSpeedKeys
from neox_train.config.sections.derived import DerivedKeys
from neox_train.config.sections.logging import LoggingKeys, MonitorKeys, ProfilingKeys
from neox_train.config.sections.model import InitialisationKeys, ModelKeys, NormKeys, PositionKeys
from neox_train.config.sections.optimizer import OptimizerKeys, ScheduleKeys
from neox_train.config.sections.parallel import LaunchKeys, ParallelKeys
from neox_train.config.sections.precision import ActivationCheckpointingKeys, PrecisionKeys
from neox_train.config.sections.preference import GenerationKeys, LegacyKeys, PreferenceKeys
from neox_train.config.sections.speed import SpeedKeys
from neox_train.config.sections.training import BatchKeys, CheckpointKeys, EvaluationKeys
from neox_train.config.sections.zero import ZeroKeys

SECTIONS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("Processes and their layout", ParallelKeys),
    ("Launcher", LaunchKeys),
    ("Model", ModelKeys),
    ("Norms", NormKeys),
    ("Positions", PositionKeys),
    ("Initial values", InitialisationKeys),
    ("Attention", AttentionKeys),
    ("Other layers", OtherLayerKeys),
    ("Transformer Engine", TransformerEngineKeys),
    ("Batches and length", BatchKeys),
    ("Optimizer", OptimizerKeys),
    ("Learning rate", ScheduleKeys),
    ("Gradient communication", CommunicationKeys),
    ("Number formats", PrecisionKeys),
    ("ZeRO", ZeroKeys),
    ("Speed", SpeedKeys),
    ("Activation checkpointing", ActivationCheckpointingKeys),
    ("Checkpoints", CheckpointKeys),
    ("Data", DataKeys),
    ("Validation", EvaluationKeys),
    ("Logs", LoggingKeys),
    ("Monitors", MonitorKeys),
    ("Profilers", ProfilingKeys),
    ("DeepSpeed", DeepSpeedKeys),
    ("Training by preference", PreferenceKeys),
    ("Data of training by preference", PreferenceDataKeys),
    ("Generation", GenerationKeys),
    ("Kept for old files", LegacyKeys),
)
"""Groups of keys in the order they are shown."""


class NeoxKeys(
    LegacyKeys,
    GenerationKeys,
    PreferenceDataKeys,
    PreferenceKeys,
    DeepSpeedKeys,
    ProfilingKeys,
    MonitorKeys,
    LoggingKeys,
    EvaluationKeys,
    DataKeys,
    CheckpointKeys,
    ActivationCheckpointingKeys,
    SpeedKeys,
    ZeroKeys,
    PrecisionKeys,
    CommunicationKeys,
    ScheduleKeys,
    OptimizerKeys,
    BatchKeys,
    TransformerEngineKeys,
    OtherLayerKeys,
    AttentionKeys,
    InitialisationKeys,
    PositionKeys,
    NormKeys,
    ModelKeys,
    LaunchKeys,
    ParallelKeys,
):
    """Every key a user may write, with GPT-NeoX's defaults where they are sound."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())


class NeoxConfig(DerivedKeys, NeoxKeys):
    """A resolved configuration: keys as written or by default, and everything derived from them.

    Frozen. Two configurations are equal when all their keys are.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())

    _notices: tuple[str, ...] = PrivateAttr(default=())
    _places: dict[str, Place] = PrivateAttr(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NeoxConfig) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    @property
    def notices(self) -> list[str]:
        """Sentences a person should read once: keys without effect, renamed keys, replaced values."""
        return list(self._notices)

    @property
    def places(self) -> dict[str, Place]:
        """Where each written value stands, by dotted path."""
        return self._places

    def to_dict(self) -> dict[str, Any]:
        """Every key and derived value, as JSON can hold it."""
        return self.model_dump(mode="python")

    def with_vocab_size(self, vocab_size: int) -> NeoxConfig:
        """The same configuration for a tokenizer of ``vocab_size`` tokens; fills ``padded_vocab_size``."""
        from neox_train.config.vocabulary import pad_vocab_size

        padded = pad_vocab_size(vocab_size, self.make_vocab_size_divisible_by, self.model_parallel_size)
        return self.model_copy(update={"vocab_size": vocab_size, "padded_vocab_size": padded})

    def with_compression(self, method: str) -> NeoxConfig:
        """The same configuration with another ``gradient_compression`` that keeps its optimizer."""
        return self.model_copy(update={"gradient_compression": method})

    def with_notices(self, *sentences: str) -> NeoxConfig:
        """The same configuration with more notices."""
        copy = self.model_copy()
        copy._notices = tuple(dict.fromkeys((*self._notices, *sentences)))
        return copy

    def training_relevant(self) -> dict[str, Any]:
        """The keys that decide what is learned, and in which order."""
        from neox_train.config.digest import select_training_relevant

        return select_training_relevant(self)

    def training_digest(self) -> str:
        """Hex SHA-256 over ``training_relevant``."""
        from neox_train.files import sha256_json

        return sha256_json(self.training_relevant())
