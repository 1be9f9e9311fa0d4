"""Which layers each pipeline stage holds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache

from neox_train.config.architecture import Architecture
from neox_train.config.parameters import list_parameters
from neox_train.errors import ConfigError

EMBEDDING, FINAL_NORM, OUTPUT = "embedding", "final_norm", "output"


def list_pipeline_layers(architecture: Architecture) -> list[str]:
    """The model as a chain: embedding, ``layers.0`` …, final norm, output."""
    blocks = [f"layers.{index}" for index in range(architecture.num_layers)]
    return [EMBEDDING, *blocks, FINAL_NORM, OUTPUT]


def deal_stages(architecture: Architecture, stages: int, method: str) -> list[range]:
    """Positions in the chain that each stage holds, by GPT-NeoX's ``pipe_partition_method``.

    ``parameters`` balances parameters, ``uniform`` the number of links, ``type:transformer`` (also with ``|mlp``) the
    number of transformer layers. Extra layers go to the first stages: the last has the logits besides. Raises
    ConfigError where a stage would hold no parameter.
    """
    chain = list_pipeline_layers(architecture)
    sizes = _count_parameters(architecture, chain)
    if method == "parameters":
        weights = sizes
    elif method == "uniform":
        weights = [1] * len(chain)
    else:
        weights = [int(link.startswith("layers.")) for link in chain]
    bounds = split_evenly(weights, stages)
    dealt = [range(first, last) for first, last in itertools.pairwise(bounds)]
    for stage, links in enumerate(dealt):
        if not any(sizes[place] for place in links):
            raise ConfigError(
                f"pipe_partition_method {method} leaves stage {stage} of {stages} without a parameter; set "
                "pipe_partition_method: type:transformer, or a smaller pipe_parallel_size"
            )
    return dealt


def split_evenly(weights: Sequence[int], parts: int) -> list[int]:
    """Bounds of ``parts`` contiguous, non-empty parts: the heaviest as light as it can be, then all as alike as they
    can be (least sum of squares), then early ones fuller.
    """
    return list(_split(tuple(weights), parts))


@lru_cache(maxsize=64)
def _split(weights: tuple[int, ...], parts: int) -> tuple[int, ...]:
    """Dynamic programming over where each part ends."""
    sums = [0, *itertools.accumulate(weights)]
    best: dict[int, tuple[tuple[int, int], tuple[int, ...]]] = {0: ((0, 0), (0,))}
    for part in range(parts):
        left = parts - 1 - part
        found: dict[int, tuple[tuple[int, int], tuple[int, ...]]] = {}
        for first, ((heaviest, squares), bounds) in best.items():
            lasts = range(first + 1, len(weights) - left + 1) if left else (len(weights),)
            for last in lasts:
                weight = sums[last] - sums[first]
                cost = (max(heaviest, weight), squares + weight * weight)
                made = (cost, (*bounds, last))
                known = found.get(last)
                if known is None or cost < known[0] or (cost == known[0] and made[1] > known[1]):
                    found[last] = made
        best = found
    return best[len(weights)][1]


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
