"""Whole matrices for Muon where ZeRO gives every rank a slice of the flat weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch

from neox_train.checkpoint.engine_state import open_engine
from neox_train.memory.optimizers import MUON_EXCHANGE_ELEMENTS
from neox_train.training.muon import MuonWithAdamW
from neox_train.training.parameter_groups import STEPPED_BY_MUON

if TYPE_CHECKING:
    from deepspeed import DeepSpeedEngine


@dataclass(frozen=True, slots=True)
class MatrixPart:
    """A matrix of a flat group, and the slice of it in this rank's tensor: ``length`` 0 where there is none."""

    shape: torch.Size
    start: int
    length: int
    offset: int
    is_cut: bool
    """Whether its elements lie on several ranks."""

    def read(self, tensor: torch.Tensor) -> torch.Tensor:
        """The slice of a tensor laid out as this rank's, one-dimensional, without a copy."""
        return tensor[self.offset : self.offset + self.length]


class ShardedMatrices:
    """The matrices behind each flat tensor that Muon steps, and their exchange among the data-parallel ranks."""

    def __init__(self, parts: Mapping[torch.Tensor, list[MatrixPart]], process_group: Any) -> None:
        self._parts = parts
        self._group = process_group

    def complete(self, tensor: torch.Tensor, directions: torch.Tensor) -> Iterator[tuple[MatrixPart, torch.Tensor]]:
        """Every matrix of which this rank holds a part, whole, out of the ranks' flat ``directions``.

        Collective over the data-parallel ranks. A cut matrix comes in bf16, to which Muon rounds its input anyway: the
        step is that of one process. The others are views of ``directions``.
        """
        parts = self._parts[tensor]
        for part in parts:
            if part.length and not part.is_cut:
                yield part, part.read(directions).view(part.shape)
        for bucket in _fill_buckets([part for part in parts if part.is_cut]):
            offsets = [0]
            for part in bucket:
                offsets.append(offsets[-1] + part.shape.numel())
            joined = torch.zeros(offsets[-1], dtype=torch.bfloat16, device=directions.device)
            for part, begin in zip(bucket, offsets, strict=False):
                joined[begin + part.start : begin + part.start + part.length] = part.read(directions)
            # Every element has one owner and zeros from the others: the sum is the matrix itself.
            torch.distributed.all_reduce(joined, group=self._group)
            for part, (begin, end) in zip(bucket, pairwise(offsets), strict=True):
                if part.length:
                    yield part, joined[begin:end].view(part.shape)


def _fill_buckets(parts: list[MatrixPart]) -> Iterator[list[MatrixPart]]:
    bucket: list[MatrixPart] = []
    elements = 0
    for part in parts:
        count = part.shape.numel()
        if bucket and elements + count > MUON_EXCHANGE_ELEMENTS:
            yield bucket
            bucket, elements = [], 0
        bucket.append(part)
        elements += count
    if bucket:
        yield bucket


def attach_muon_shards(engine: DeepSpeedEngine, model: torch.nn.Module, optimizer: MuonWithAdamW) -> None:
    """Tell Muon which matrices its flat tensors hold; without ZeRO it steps whole matrices and needs nothing.

    Collective over the data-parallel ranks.
    """
    state = open_engine(engine, model)
    if state.replicated:
        return
    shapes = {name: getattr(weight, "ds_shape", weight.shape) for name, weight in model.named_parameters()}
    group = engine.seq_data_parallel_group
    parts = {}
    for held in state.held:
        if not optimizer.param_groups[held.group].get(STEPPED_BY_MUON):
            continue
        own = {segment.name: segment for segment in held.segments}
        lengths = [own[name].length if name in own else 0 for name in held.names]
        longest = torch.tensor(lengths, device=held.tensor.device)
        torch.distributed.all_reduce(longest, op=torch.distributed.ReduceOp.MAX, group=group)
        parts[held.tensor] = [
            MatrixPart(
                shape=torch.Size(shapes[name]),
                start=own[name].start if name in own else 0,
                length=length,
                offset=own[name].offset if name in own else 0,
                is_cut=most < shapes[name].numel(),
            )
            for name, length, most in zip(held.names, lengths, longest.tolist(), strict=True)
        ]
    optimizer.matrices = ShardedMatrices(parts, group)
