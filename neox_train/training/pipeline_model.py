"""GPT-NeoX as DeepSpeed's pipeline module: the same layers as the plain model, one stage of them on each rank."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import torch
from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec
from deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology
from torch import nn

from neox_train.config.architecture import Architecture
from neox_train.config.grid import GridShape
from neox_train.config.stages import deal_stages
from neox_train.model.block import Block
from neox_train.model.documents import number_documents
from neox_train.model.dropout import HiddenDropout
from neox_train.model.layers import LayerFactory
from neox_train.model.masks import AttentionMasks, Masks
from neox_train.model.positions import add_positions
from neox_train.model.recomputation import Recompute
from neox_train.model.rotary import Rotary
from neox_train.model.scaling import scale
from neox_train.model.sinusoidal import Sinusoidal

_TIED = "embeddings"
_TIED_PREFIX = f"tied_modules.{_TIED}."

Sent: TypeAlias = torch.Tensor | tuple[torch.Tensor, torch.Tensor]
"""What a stage hands on: tokens, hidden states or logits; with hidden states the document of each token where asked."""


@dataclass(frozen=True, kw_only=True)
class StagePlan:
    """What decides a pipeline module beside the architecture."""

    shape: GridShape
    partition_method: str
    checkpoint_layers: int
    recompute: Recompute
    document_end: int | None = None
    """The token that closes a document, where each token sees its own only."""


@dataclass(frozen=True, kw_only=True)
class Packed:
    """The documents of a micro-batch, int64 [batch, sequence], and the masks that keep them apart."""

    documents: torch.Tensor
    masks: Masks


class PipelinedGPTNeoX(PipelineModule):
    """The layers of this rank's stage; its parameters go by their canonical names."""

    def __init__(self, architecture: Architecture, layers: LayerFactory, plan: StagePlan) -> None:
        self._architecture = architecture
        self._plan = plan
        self._masks = AttentionMasks(architecture, layers)
        topology = PipeModelDataParallelTopology(num_pp=plan.shape.pp, num_mp=plan.shape.tp, num_dp=plan.shape.dp)
        # DeepSpeed prints the grid and every layer, whatever its log level.
        with contextlib.redirect_stdout(io.StringIO()):
            super().__init__(
                layers=list_specs(architecture, layers, self._masks),
                topology=topology,
                loss_fn=_loss_of(architecture, layers),
            )
        mark_counted(self)

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """Parameters by canonical name: a stage's place in the chain is no part of it."""
        for name, parameter in super().named_parameters("", recurse, remove_duplicate):
            yield prefix + _canonical(name), parameter

    def forward(self, inputs: Sent) -> Sent:
        """Tokens or hidden states in, hidden states or logits out; recomputes chunks of layers where that is asked."""
        values, packed = self._receive(inputs)
        waiting = list(self.forward_funcs)
        while waiting:
            chunk = self._take_chunk(waiting)
            if isinstance(chunk[0], BlockLayer) and self._plan.checkpoint_layers and torch.is_grad_enabled():
                drops = self._architecture.hidden_dropout or self._architecture.attention_dropout
                values = self._plan.recompute(
                    _run, chunk, values, packed, use_reentrant=False, preserve_rng_state=bool(drops)
                )
            else:
                values = _run(chunk, values, packed)
        # What is sent to the next stage must lie in one piece; shares of a sequence do not.
        values = values.contiguous()
        is_last = self._stage == self._plan.shape.pp - 1
        return values if packed is None or is_last else (values, packed.documents)

    def _receive(self, inputs: Sent) -> tuple[torch.Tensor, Packed | None]:
        """Tokens or hidden states, and the documents of a packed sequence: numbered by the first stage, sent along."""
        if isinstance(inputs, tuple):
            values, documents = inputs
        elif self._stage == 0 and self._plan.document_end is not None:
            values, documents = inputs, number_documents(inputs, self._plan.document_end)
        else:
            return inputs, None
        dtype = next(self.parameters()).dtype
        return values, Packed(documents=documents, masks=self._masks.for_documents(documents, dtype=dtype))

    def _take_chunk(self, waiting: list[Callable[..., torch.Tensor]]) -> list[Callable[..., torch.Tensor]]:
        chunk = [waiting.pop(0)]
        while (
            waiting
            and len(chunk) < self._plan.checkpoint_layers
            and all(isinstance(function, BlockLayer) for function in (chunk[0], waiting[0]))
        ):
            chunk.append(waiting.pop(0))
        return chunk

    def _partition_layers(self, method: str = "") -> None:
        stages = deal_stages(self._architecture, self._plan.shape.pp, self._plan.partition_method)
        self.parts = [0, *(stage.stop for stage in stages)]
        self._stage = self._plan.shape.place_of(self.global_rank).pp
        own = stages[self._stage]
        self._set_bounds(start=own.start, stop=own.stop)


class EmbeddingLayer(nn.Module):
    """The first link: word (and learned position) embeddings; with tied weights the projection of the last one too."""

    def __init__(self, architecture: Architecture, layers: LayerFactory, *, reads_tokens: bool) -> None:
        super().__init__()
        a = architecture
        self._layers = layers
        self.drop = HiddenDropout(a.hidden_dropout, layers.shared_random)
        self.word_embeddings = layers.embedding(a.padded_vocab_size, a.hidden_size)
        self.position_embeddings = (
            layers.position_embedding(a.max_position_embeddings, a.hidden_size)
            if reads_tokens and a.pos_emb == "learned"
            else None
        )
        self._multiplier, self._output_multiplier = a.mup_embedding_multiplier, a.output_multiplier
        is_sinusoidal = reads_tokens and a.pos_emb == "sinusoidal"
        self._sinusoidal = Sinusoidal(a.hidden_size) if is_sinusoidal else None

    def forward(self, tokens: torch.Tensor, packed: Packed | None = None) -> torch.Tensor:
        """int64 [batch, sequence] to [batch, sequence or share, hidden]."""
        hidden = add_positions(
            self.word_embeddings(tokens),
            tokens.shape[1],
            learned=self.position_embeddings,
            sinusoidal=self._sinusoidal,
            layers=self._layers,
            documents=None if packed is None else packed.documents,
        )
        return self.drop(scale(hidden, self._multiplier))

    def project(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits by the tied embeddings."""
        return self._layers.project(scale(hidden, self._output_multiplier), self.word_embeddings.weight)


class BlockLayer(nn.Module):
    """One transformer layer with the rotary tables and the masks of a whole sequence."""

    def __init__(
        self,
        architecture: Architecture,
        layers: LayerFactory,
        rotary: Rotary | None,
        masks: AttentionMasks,
        *,
        kind: str,
    ) -> None:
        super().__init__()
        self._rotary, self._masks, self._length = rotary, masks, architecture.seq_length
        self.block = Block(architecture, layers, attention_kind=kind)

    def forward(self, hidden: torch.Tensor, packed: Packed | None = None) -> torch.Tensor:
        """[batch, sequence or share, hidden] to the same shape."""
        tables = self._rotary.tables(self._length, hidden.device) if self._rotary else None
        kind = self.block.attention_kind
        if packed is not None:
            return self.block(hidden, tables, packed.masks[kind])
        mask = self._masks.of_kind(kind, self._length, device=hidden.device, dtype=hidden.dtype)
        return self.block(hidden, tables, mask)


class FinalNormLayer(nn.Module):
    """The norm after the last layer."""

    def __init__(self, architecture: Architecture, layers: LayerFactory) -> None:
        super().__init__()
        self.final_norm = layers.norm(architecture)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """[batch, sequence or share, hidden] to the same shape."""
        return self.final_norm(hidden)


class OutputLayer(nn.Module):
    """The output projection with weights of its own."""

    def __init__(self, architecture: Architecture, layers: LayerFactory) -> None:
        super().__init__()
        self.output = layers.column_linear(architecture.hidden_size, architecture.padded_vocab_size, bias=False)
        self._multiplier = architecture.output_multiplier

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden states to logits."""
        return self.output(scale(hidden, self._multiplier))


def list_specs(architecture: Architecture, layers: LayerFactory, masks: AttentionMasks) -> list[LayerSpec]:
    """The chain of ``list_pipeline_layers`` as DeepSpeed builds it: each rank its own part."""
    a = architecture
    rotary = Rotary(a.rotary_dim, a.rotary_emb_base) if a.pos_emb == "rotary" else None
    blocks = [LayerSpec(BlockLayer, a, layers, rotary, masks, kind=kind) for kind in a.attention_layers]
    norm = LayerSpec(FinalNormLayer, a, layers)
    if not a.tied_embeddings:
        embedding = LayerSpec(EmbeddingLayer, a, layers, reads_tokens=True)
        return [embedding, *blocks, norm, LayerSpec(OutputLayer, a, layers)]
    tied = {"tied_weight_attr": "word_embeddings.weight"}
    first = TiedLayerSpec(_TIED, EmbeddingLayer, a, layers, reads_tokens=True, **tied)
    last = TiedLayerSpec(
        _TIED, EmbeddingLayer, a, layers, reads_tokens=False, forward_fn=EmbeddingLayer.project, **tied
    )
    return [first, *blocks, norm, last]


def mark_counted(model: nn.Module) -> None:
    """Let DeepSpeed's clipping count this stage's parameters, each once.

    It asks whether a parameter is "model parallel", and takes the first rank for the owner of all others, which with
    stages it is not. What tensor-parallel peers hold alike, and the second copy of tied embeddings, stay uncounted.
    """
    is_first_shard = model.mpu().get_slice_parallel_rank() == 0
    for parameter in model.parameters():
        if parameter.ds_pipe_replicated:
            # Its layer has marked it as cut.
            parameter.model_parallel = parameter.tensor_model_parallel = False
        elif is_first_shard:
            parameter.model_parallel = parameter.tensor_model_parallel = True


def _loss_of(a: Architecture, layers: LayerFactory) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    def loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return layers.cross_entropy(logits, targets, vocab_size=a.vocab_size)

    return loss


def _run(chunk: list[Callable[..., torch.Tensor]], values: torch.Tensor, packed: Packed | None) -> torch.Tensor:
    for function in chunk:
        sees_documents = isinstance(function, (EmbeddingLayer, BlockLayer))
        values = function(values, packed) if sees_documents else function(values)
    return values


def _canonical(name: str) -> str:
    """``3.block.mlp.linear1.weight`` is the second layer's: the embedding stands first in the chain."""
    if name.startswith(_TIED_PREFIX):
        return name.removeprefix(_TIED_PREFIX)
    place, _, rest = name.partition(".")
    return f"layers.{int(place) - 1}.{rest.removeprefix('block.')}" if rest.startswith("block.") else rest
