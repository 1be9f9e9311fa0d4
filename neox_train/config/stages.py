"""Which layers each pipeline stage holds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from neox_train.config.architecture import Architecture
from neox_train.config.parameters import list_parameters

EMBEDDING, FINAL_NORM, OUTPUT = "embedding", "final_norm", "output"


def list_pipeline_layers(architecture: Architecture) -> list[str]:
    """The model as a chain: embedding, ``layers.0`` …, final norm, output."""
    blocks = [f"layers.{index}" for index in range(architecture.num_layers)]
    return [EMBEDDING, *blocks, FINAL_NORM, OUTPUT]


def deal_stages(architecture: Architecture, stages: int, method: str) -> list[range]:
    """Positions in the chain that each stage holds, by GPT-NeoX's ``pipe_partition_method``.

    ``parameters`` balances parameters, ``uniform`` the number of links, ``type:transformer`` (also with ``|mlp``) the
    number of transformer layers. Extra layers go to the first stages: the last has the logits besides.
    """
    chain = list_pipeline_layers(architecture)
    if method == "parameters":
        weights = _count_parameters(architecture, chain)
    elif method == "uniform":
        weights = [1] * len(chain)
    else:
        weights = [int(link.startswith("layers.")) for link in chain]
    bounds = split_evenly(weights, stages)
    return [range(first, last) for first, last in itertools.pairwise(bounds)]


def split_evenly(weights: Sequence[int], parts: int) -> list[int]:
    """Bounds of ``parts`` contiguous, non-empty parts, the heaviest as light as it can be; early parts are fuller."""
    sums = [0, *itertools.accumulate(weights)]
    limit = _lightest_limit(weights, parts)
    bounds = [0]
    for part in range(parts - 1):
        left = parts - 1 - part
        last = bounds[-1] + 1
        while last < len(weights) - left and sums[last + 1] - sums[bounds[-1]] <= limit:
            last += 1
        bounds.append(last)
    return [*bounds, len(weights)]


def _lightest_limit(weights: Sequence[int], parts: int) -> int:
    low, high = max(weights), sum(weights)
    while low < high:
        middle = (low + high) // 2
        if _count_parts(weights, middle) <= parts:
            high = middle
        else:
            low = middle + 1
    return low


def _count_parts(weights: Sequence[int], limit: int) -> int:
    parts, held = 1, 0
    for weight in weights:
        if held + weight > limit:
            parts, held = parts + 1, 0
        held += weight
    return parts


def _count_parameters(architecture: Architecture, chain: Sequence[str]) -> list[int]:
    counts = dict.fromkeys(chain, 0)
    for parameter in list_parameters(architecture):
        counts[owner_of(parameter.name)] += parameter.count
    return [counts[link] for link in chain]


def owner_of(name: str) -> str:
    """The link of the chain that holds a parameter."""
    head, _, rest = name.partition(".")
    if head == "layers":
        return f"layers.{rest.partition('.')[0]}"
    return EMBEDDING if head.endswith("_embeddings") else head
