"""The token store a configuration points at, as training windows in their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from neox_train.data.loader import iterate_batches, validation_batches
from neox_train.data.manifest import Manifest, load_manifest
from neox_train.data.order import SampleOrder
from neox_train.data.store import TokenStore
from neox_train.data.windows import Windows
from neox_train.errors import ConfigError
from neox_train.training.distributed import RankContext

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """Windows of both splits, the order of the first, and what the store says of itself."""

    manifest: Manifest
    train: Windows
    validation: Windows
    order: SampleOrder

    @classmethod
    def open(cls, config: NeoxConfig) -> TrainingData:
        """Open ``config.data_path``; raises ConfigError or DataError in one sentence."""
        if not config.data_path:
            raise ConfigError(
                "`data_path` is not set; give it the folder of a tokenized dataset (the one with manifest.json)"
            )
        folder = Path(config.data_path)
        manifest = load_manifest(folder)
        train = Windows(TokenStore.open(folder, "train"), config.seq_length)
        return cls(
            manifest=manifest,
            train=train,
            validation=Windows(TokenStore.open(folder, "validation"), config.seq_length),
            order=SampleOrder(len(train), config.seed),
        )

    @property
    def digests(self) -> dict[str, str]:
        """What a checkpoint remembers of the data."""
        return {"dataset": self.manifest.digest, "tokenizer": self.manifest.tokenizer_sha256}

    def train_batches(self, config: NeoxConfig, context: RankContext, consumed_samples: int) -> Iterator[np.ndarray]:
        """This rank's micro-batches from the first sample that is not consumed yet."""
        return iterate_batches(
            self.train,
            self.order,
            micro_batch=config.train_micro_batch_size_per_gpu,
            dp_rank=context.data_parallel_rank,
            dp_size=config.data_parallel_size,
            gradient_accumulation_steps=config.gradient_accumulation_steps,
            consumed_samples=consumed_samples,
        )

    def validation_batches(self, config: NeoxConfig, context: RankContext) -> Iterator[np.ndarray]:
        """This rank's micro-batches of ``eval_iters`` global batches: the same windows each time and for any layout.

        Raises DataError at the call where the split is too short.
        """
        return validation_batches(
            self.validation,
            micro_batch=config.train_micro_batch_size_per_gpu,
            dp_rank=context.data_parallel_rank,
            dp_size=config.data_parallel_size,
            batches=config.eval_iters * config.gradient_accumulation_steps,
        )
