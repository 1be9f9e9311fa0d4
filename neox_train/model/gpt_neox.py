"""The GPT-NeoX decoder."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from neox_train.config.architecture import Architecture
from neox_train.errors import NotBuiltError
from neox_train.model.block import Block
from neox_train.model.documents import number_documents
from neox_train.model.dropout import HiddenDropout
from neox_train.model.layers import LayerFactory, LocalLayers
from neox_train.model.linear_cross_entropy import linear_cross_entropy
from neox_train.model.masks import AttentionMasks, Masks
from neox_train.model.positions import add_positions
from neox_train.model.rotary import Rotary, RotaryTables
from neox_train.model.scaling import scale
from neox_train.model.sinusoidal import Sinusoidal

BlockBuilder = Callable[..., nn.Module]
"""Makes a layer as ``Block`` does: from (architecture, layers, attention_kind=...)."""
StackContext = Callable[[], AbstractContextManager[Any]]

_POSITIONS = ("rotary", "learned", "sinusoidal", "alibi", "none")


class GPTNeoX(nn.Module):
    """Embeddings, blocks, final norm and output projection under the names of ``list_parameters``.

    Parameters are not set here: call ``initialise``, or load every one of them by name. ``checkpoint_layers`` above 0
    recomputes activations in the backward pass in chunks of that many layers; ``loss_chunk_tokens`` above 0 computes
    the loss for that many tokens at a time, so that the logits of a micro-batch never exist at once. ``stack_context``
    makes the context all blocks run in (FP8); embeddings and the projection to the vocabulary stay outside it.
    ``recompute`` is called as torch's ``checkpoint``. With ``document_end``, the token that closes a document, each
    token sees its own document only, and positions count from its start.
    """

    def __init__(
        self,
        architecture: Architecture,
        *,
        checkpoint_layers: int = 0,
        loss_chunk_tokens: int = 0,
        layers: LayerFactory | None = None,
        build_block: BlockBuilder = Block,
        stack_context: StackContext = nullcontext,
        recompute: Callable[..., Any] = checkpoint,
        document_end: int | None = None,
    ) -> None:
        super().__init__()
        a = architecture
        if a.pos_emb not in _POSITIONS:
            raise NotBuiltError(f"pos_emb: {a.pos_emb!r} is not built here; choose one of {', '.join(_POSITIONS)}")
        self._factory = layers = layers or LocalLayers()
        self.architecture = a
        self.checkpoint_layers = checkpoint_layers
        self.loss_chunk_tokens = loss_chunk_tokens
        self._stack_context, self._recompute = stack_context, recompute
        self._document_end = document_end
        self._embedding_multiplier, self._output_multiplier = a.mup_embedding_multiplier, a.output_multiplier
        self._rotary = Rotary(a.rotary_dim, a.rotary_emb_base) if a.pos_emb == "rotary" else None
        self.drop = HiddenDropout(a.hidden_dropout, layers.shared_random)
        self._sinusoidal = Sinusoidal(a.hidden_size) if a.pos_emb == "sinusoidal" else None
        self._masks = AttentionMasks(a, layers)
        self.word_embeddings = layers.embedding(a.padded_vocab_size, a.hidden_size)
        is_learned = a.pos_emb == "learned"
        self.position_embeddings = (
            layers.position_embedding(a.max_position_embeddings, a.hidden_size) if is_learned else None
        )
        self.layers = nn.ModuleList(build_block(a, layers, attention_kind=kind) for kind in a.attention_layers)
        self.final_norm = layers.norm(a)
        if not a.tied_embeddings:
            self.output = layers.column_linear(a.hidden_size, a.padded_vocab_size, bias=False)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
        """Logits [batch, sequence, padded vocabulary] of int64 ``tokens`` [batch, sequence].

        With ``targets`` (int64, the same shape) the mean cross-entropy instead, an fp32 scalar.
        """
        documents = None if self._document_end is None else number_documents(tokens, self._document_end)
        hidden = self.embed(tokens, documents)
        hidden = self.final_norm(self.run_layers(hidden, length=tokens.shape[1], documents=documents))
        hidden = scale(hidden, self._output_multiplier)
        if targets is not None and self.loss_chunk_tokens:
            return linear_cross_entropy(
                hidden,
                self._output_weight,
                targets,
                vocab_size=self.architecture.vocab_size,
                chunk_tokens=self.loss_chunk_tokens,
            )
        logits = self.project(hidden)
        if targets is None:
            return self._factory.gather_logits(logits)
        return self._factory.cross_entropy(logits, targets, vocab_size=self.architecture.vocab_size)

    def loss(self, tokens: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy, fp32, of predicting each next token of int64 ``tokens`` [batch, sequence + 1]."""
        return self(tokens[:, :-1], tokens[:, 1:])

    def embed(self, tokens: torch.Tensor, documents: torch.Tensor | None = None) -> torch.Tensor:
        """Word embeddings, with those of learned or sinusoidal positions [batch, sequence, hidden]."""
        hidden = add_positions(
            self.word_embeddings(tokens),
            tokens.shape[1],
            learned=self.position_embeddings,
            sinusoidal=self._sinusoidal,
            layers=self._factory,
            documents=documents,
        )
        return self.drop(scale(hidden, self._embedding_multiplier))

    def run_layers(self, hidden: torch.Tensor, *, length: int, documents: torch.Tensor | None = None) -> torch.Tensor:
        """Every block in turn, [batch, sequence, hidden] to the same shape, for sequences of ``length`` tokens."""
        with self._stack_context():
            return self._run_stack(hidden, length, documents)

    def _run_stack(self, hidden: torch.Tensor, length: int, documents: torch.Tensor | None) -> torch.Tensor:
        # Rotation and ALiBi know distances only: within a document they do not depend on where it starts.
        tables = self._rotary.tables(length, hidden.device) if self._rotary else None
        if documents is None:
            masks = self._masks.for_length(length, device=hidden.device, dtype=hidden.dtype)
        else:
            masks = self._masks.for_documents(documents, dtype=hidden.dtype)
        if not (self.checkpoint_layers and torch.is_grad_enabled()):
            return _run(self.layers, hidden, tables, masks)
        a = self.architecture
        has_dropout = self.training and bool(a.hidden_dropout or a.attention_dropout)
        for first in range(0, len(self.layers), self.checkpoint_layers):
            chunk = self.layers[first : first + self.checkpoint_layers]
            # Random state is only worth saving (a device synchronisation) where the recomputation draws from it.
            hidden = self._recompute(
                _run, chunk, hidden, tables, masks, use_reentrant=False, preserve_rng_state=has_dropout
            )
        return hidden

    @property
    def _output_weight(self) -> torch.Tensor:
        tied = self.architecture.tied_embeddings
        weight: torch.Tensor = self.word_embeddings.weight if tied else self.output.weight
        return weight

    def project(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits over the padded vocabulary, by the output matrix or the tied embeddings."""
        if self.architecture.tied_embeddings:
            return self._factory.project(hidden, self.word_embeddings.weight)
        return self.output(hidden)


def _run(blocks: nn.ModuleList, hidden: torch.Tensor, tables: RotaryTables | None, masks: Masks) -> torch.Tensor:
    for block in blocks:
        hidden = block(hidden, tables, masks.get(block.attention_kind))
    return hidden
