"""A run's model as this project computes it, for checkpoints that no class of transformers expresses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from neox_train.checkpoint.choice import choose_checkpoint
from neox_train.checkpoint.manifest import read_manifest, verify_checkpoint
from neox_train.config.architecture import Architecture
from neox_train.config.layout import RunFolder
from neox_train.config.load import load_config
from neox_train.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    import torch

    from neox_train.config.schema import NeoxConfig
    from neox_train.model.gpt_neox import GPTNeoX


@dataclass(frozen=True)
class Answer:
    """What a causal language model of transformers answers with, as far as scoring and sampling read it."""

    logits: torch.Tensor
    """[batch, sequence, vocabulary]."""


@dataclass(frozen=True)
class OwnModel:
    """The model of one checkpoint, called as those of transformers are: ``model(input_ids=tokens).logits``."""

    network: GPTNeoX
    config: NeoxConfig
    step: int

    def __call__(self, input_ids: torch.Tensor, use_cache: bool = False) -> Answer:
        """Logits of int64 ``input_ids`` [batch, sequence]; there is no cache of earlier tokens to use."""
        return Answer(self.network(input_ids))

    def parameters(self) -> Iterator[torch.Tensor]:
        """The weights, whose device and number format the answers have."""
        return self.network.parameters()


def load_own_model(run_dir: Path | str, step_folder: Path | str | None = None, *, device: str = "cpu") -> OwnModel:
    """The model of a run's newest complete checkpoint, or of ``step_folder``, in fp32 and in evaluation mode.

    Every file is compared with its recorded hash first. Raises ConfigError where ``run_dir`` is no run's folder, and
    CheckpointError where no checkpoint is complete. With ``document_attention`` a text is read as one document.
    """
    from neox_train.checkpoint.parity import build_trained_model
    from neox_train.checkpoint.weights import read_model_weights

    run = RunFolder(Path(run_dir))
    if not run.config_file.is_file():
        raise ConfigError(f"{run.path} is no run's folder (no config.yml); name the one that a training left")
    config = load_config([run.config_file])
    if config.vocab_size is None:
        raise ConfigError(f"{run.config_file} has no vocab_size; set it to the number of the tokenizer's tokens")
    folder = _find_checkpoint(run) if step_folder is None else _require_whole(Path(step_folder))
    network = build_trained_model(read_model_weights(folder), Architecture.from_config(config), dtype="float32")
    return OwnModel(network.to(device).eval(), config, read_manifest(folder).step)


def _find_checkpoint(run: RunFolder) -> Path:
    folder, skipped = choose_checkpoint(run.checkpoints)
    if folder is None:
        reason = f" ({skipped[0][1]})" if skipped else ""
        raise CheckpointError(f"{run.checkpoints} holds no complete checkpoint{reason}; train the run first")
    return folder


def _require_whole(folder: Path) -> Path:
    if problems := verify_checkpoint(folder):
        raise CheckpointError(f"{folder} is damaged ({problems[0]}); choose another step folder of the run")
    return folder
