"""Per-layer attention kinds and the MLP's width, as GPT-NeoX's keys give them."""

from __future__ import annotations

from typing import Any

from neox_train.config.architecture import GATED_ACTIVATIONS
from neox_train.config.conflict import ConflictError
from neox_train.config.nearest import ask_nearest
from neox_train.config.sections.attention import ATTENTION_KINDS


def expand_attention(attention_config: list[Any] | None, num_layers: int) -> list[str]:
    """One kind a layer. ``[[["global", "local"], 6]]`` repeats the pattern 6 times; ``"all"`` fills every layer."""
    if attention_config is None:
        return ["global"] * num_layers
    layers: list[str] = []
    total = 0
    if all(isinstance(entry, str) for entry in attention_config):
        layers, total = list(attention_config), len(attention_config)
    else:
        for entry in attention_config:
            kinds, count = _read_entry(entry)
            if count == "all":
                layers, total = [kinds[index % len(kinds)] for index in range(num_layers)], num_layers
                break
            total += len(kinds) * int(count)
            # A count beyond all reason is told below and not laid out.
            layers += kinds * min(int(count), num_layers + 1)
    for kind in layers:
        if kind not in ATTENTION_KINDS:
            raise ConflictError(
                f"attention_config names '{kind}'; one of {', '.join(ATTENTION_KINDS)} is wanted"
                + ask_nearest(kind, ATTENTION_KINDS),
                "attention_config",
            )
    if total != num_layers:
        raise ConflictError(
            f"attention_config gives {total} layers, num_layers is {num_layers}; make them equal",
            "attention_config",
            "num_layers",
        )
    return layers


def _read_entry(entry: Any) -> tuple[list[str], int | str]:
    good = (
        isinstance(entry, list)
        and len(entry) == 2
        and isinstance(entry[0], list)
        and len(entry[0]) > 0
        and all(isinstance(kind, str) for kind in entry[0])
        and (entry[1] == "all" or (isinstance(entry[1], int) and not isinstance(entry[1], bool) and entry[1] > 0))
    )
    if not good:
        raise ConflictError(
            f'attention_config holds {entry!r}; a list of kinds and a count or "all" is wanted, as [["global"], "all"]',
            "attention_config",
        )
    return list(entry[0]), entry[1]


def derive_ffn_width(
    hidden_size: int,
    intermediate_size: int | None,
    expansion_factor: float | None,
    multiple_of: int,
    activation: str,
) -> int:
    """Input width of the MLP's second matrix.

    With I = intermediate_size, else int(expansion_factor x h), else 4h: a plain MLP is I wide; a gated one is
    int(2I/3) // 2 wide, so that its three matrices hold as many numbers as two of width I (for a Llama width W set
    I = 3W). Widths round up to ``mlp_multiple_of``.
    """
    if intermediate_size is not None and expansion_factor is not None:
        raise ConflictError(
            f"intermediate_size is {intermediate_size} and expansion_factor is {expansion_factor}, which say the same; "
            "keep one of them",
            "intermediate_size",
            "expansion_factor",
        )
    width = intermediate_size or 4 * hidden_size
    if expansion_factor is not None:
        width = int(expansion_factor * hidden_size)
    if activation in GATED_ACTIVATIONS:
        width = int(2 * width / 3) // 2
    return -(-max(width, 1) // multiple_of) * multiple_of
