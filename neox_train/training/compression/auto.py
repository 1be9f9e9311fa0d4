"""``gradient_compression: auto``: measure, choose by the advice's model, keep the checkpoint's where it must stay."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from neox_train.checkpoint.manifest import read_manifest
from neox_train.checkpoint.writer import STATE_NAME
from neox_train.config.architecture import Architecture
from neox_train.config.compression import AUTO_METHODS, choose_communication_type, list_candidates
from neox_train.config.implementations import Implementations
from neox_train.files import read_json
from neox_train.memory.compression_choice import Choice, choose_method
from neox_train.training.compilation import compile_blocks, prefer_fast_attention
from neox_train.training.compression.measure import measure_link, measure_step
from neox_train.training.distributed import RankContext, run_on_main
from neox_train.training.engine import build_model

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

COMPRESSION = "gradient_compression"
"""Key of the chosen method in a checkpoint's trainer state."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The configuration with the method that was chosen, and the line that says why."""

    config: NeoxConfig
    sentence: str

    @property
    def record(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {COMPRESSION: self.config.gradient_compression}


def settle_compression(
    config: NeoxConfig, context: RankContext, checkpoint: Path | None, *, document_end: int | None
) -> Settled:
    """Choose for all ranks what ``auto`` stands for in this start of the training (collective).

    ``checkpoint`` is what the training goes on from. Takes a few seconds, and what compiling blocks takes where the
    training does; nothing that is measured with stays.
    """
    previous = run_on_main(lambda: read_previous(checkpoint) if checkpoint else None)
    element_bytes = _count_element_bytes(config)
    model = build_bare_model(config, context, document_end)
    facts = measure_step(config, model, context, element_bytes)
    del model
    gc.collect()
    link = None
    if context.world_size > 1:
        link = measure_link(context, facts.parameters * element_bytes)
    if context.device.type == "cuda":
        torch.cuda.empty_cache()
    context.traffic.take()

    def choose() -> Choice:
        return choose_method(
            link, facts, allowed=list_candidates(config), previous=previous, is_fixed=config.deterministic
        )

    choice = run_on_main(choose)
    return Settled(config.with_compression(choice.method), choice.sentence)


def read_previous(checkpoint: Path) -> str | None:
    """The method that a checkpoint's training used last; None for one that ``auto`` cannot choose."""
    extra = read_json(checkpoint / STATE_NAME)["trainer"]["extra"]
    written = read_manifest(checkpoint).training_relevant.get(COMPRESSION, "none")
    method = extra.get(COMPRESSION, written)
    return method if method in AUTO_METHODS or method == "fp16" else None


def _count_element_bytes(config: NeoxConfig) -> int:
    """Of a gradient as it travels without compression."""
    communicated = choose_communication_type(config)
    is_narrow = config.precision != "fp32" if communicated is None else communicated != "fp32"
    return 2 if is_narrow else 4


def build_bare_model(config: NeoxConfig, context: RankContext, document_end: int | None) -> torch.nn.Module:
    """The model as the training computes it, with weights of noise, nothing around it."""
    choice = Implementations.choose(config, "cuda" if context.device.type == "cuda" else "cpu")
    model = build_model(config, Architecture.from_config(config), context.grid, choice, document_end)
    dtype = torch.float32 if config.precision == "fp32" else torch.bfloat16
    model.to(device=context.device, dtype=dtype)
    prefer_fast_attention(context.device)
    if choice.compiled_blocks:
        # As the training's own: blocks of one shape share a graph, which it finds compiled.
        compile_blocks(model)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.02)
    return model
