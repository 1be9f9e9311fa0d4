"""What is added to attention scores where attention is more than causal: windows, blocks, ALiBi's distances."""

from __future__ import annotations

import math

import torch

from neox_train.config.architecture import Architecture
from neox_train.model.layers import LayerFactory

Masks = dict[str, torch.Tensor]
"""By layer kind, [1, heads or 1, sequence, sequence] to be added to the scores; none where a kind is just causal."""

_Key = tuple[int, torch.device, torch.dtype]


class AttentionMasks:
    """The masks of one model: made once for a length, shared by all layers of a kind.

    They are additive and in the scores' own format, because torch's kernels would copy a boolean mask in every layer.
    """

    def __init__(self, architecture: Architecture, layers: LayerFactory) -> None:
        self._architecture = architecture
        self._slopes = layers.cut_heads(alibi_slopes(architecture.num_attention_heads))
        self._kept: dict[str, tuple[_Key, torch.Tensor]] = {}

    def for_length(self, length: int, *, device: torch.device, dtype: torch.dtype) -> Masks:
        """Masks of every kind the model has, for sequences of ``length`` tokens."""
        made = {
            kind: self.of_kind(kind, length, device=device, dtype=dtype)
            for kind in dict.fromkeys(self._architecture.attention_layers)
        }
        return {kind: mask for kind, mask in made.items() if mask is not None}

    def for_documents(self, documents: torch.Tensor, *, dtype: torch.dtype) -> Masks:
        """Masks of every kind the model has, [batch, heads or 1, sequence, sequence], that end at documents.

        ``documents`` int64 [batch, sequence] numbers the document of each token.
        """
        same = (documents.unsqueeze(-1) == documents.unsqueeze(-2)).unsqueeze(1)
        length, device = documents.shape[1], documents.device
        cut = {}
        for kind in dict.fromkeys(self._architecture.attention_layers):
            mask = self._keep(kind, length, device=device, dtype=dtype)
            cut[kind] = torch.where(same, mask, -math.inf)
        return cut

    def of_kind(self, kind: str, length: int, *, device: torch.device, dtype: torch.dtype) -> torch.Tensor | None:
        """One kind's mask, None where it is just causal; that of the latest length is kept between calls."""
        if not self._architecture.needs_mask(kind):
            return None
        return self._keep(kind, length, device=device, dtype=dtype)

    def _keep(self, kind: str, length: int, *, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
        key = (length, device, dtype)
        if kind not in self._kept or self._kept[kind][0] != key:
            # A tensor made inside inference mode could not be used by a later training step.
            with torch.inference_mode(False), torch.no_grad():
                self._kept[kind] = (key, build_mask(self._architecture, kind, length, self._slopes, device).to(dtype))
        return self._kept[kind][1]


def build_mask(
    architecture: Architecture, kind: str, length: int, slopes: list[float], device: torch.device
) -> torch.Tensor:
    """One layer kind's mask, fp32 [1, heads or 1, length, length]: minus infinity where a query must not look.

    ``slopes`` are ALiBi's, of the heads that this rank has.
    ``global`` and ``flash`` with ``sliding_window`` w see w positions back and themselves, as flash-attention's window
    (w, 0). ``local`` is DeepSpeed's LocalSlidingWindowSparsityConfig: whole blocks, half of ``local_blocks`` back.
    """
    a = architecture
    positions = torch.arange(length, device=device)
    queries, keys = positions.unsqueeze(1), positions.unsqueeze(0)
    hidden = keys > queries
    if kind == "local":
        hidden = hidden | (queries // a.local_block - keys // a.local_block > a.local_blocks // 2)
    elif a.sliding_window is not None:
        hidden = hidden | (queries - keys > a.sliding_window)
    if a.pos_emb == "alibi":
        bias = torch.tensor(slopes, device=device).view(1, -1, 1, 1) * (keys - queries)
    else:
        bias = torch.zeros(1, 1, length, length, device=device)
    return bias.masked_fill_(hidden, -math.inf)


def alibi_slopes(heads: int) -> list[float]:
    """ALiBi's slope of each head (Press et al., arXiv 2108.12409): 2^(-8/n), 2^(-16/n), ... for n a power of two.

    For another n: those of the next lower power of two, then every second one of the next higher.
    """
    lower = 2 ** math.floor(math.log2(heads))
    slopes = _geometric(lower)
    return slopes + _geometric(2 * lower)[::2][: heads - lower]


def _geometric(heads: int) -> list[float]:
    return [2.0 ** (-8.0 * (head + 1) / heads) for head in range(heads)]
