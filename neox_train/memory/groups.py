"""Optimizer groups as DeepSpeed flattens, pads and cuts them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from neox_train.config.architecture import Architecture
from neox_train.config.optimizer_groups import cut_groups, put_aligned_first
from neox_train.config.parameters import Parameter, list_parameters
from neox_train.config.stages import OUTPUT, owner_of
from neox_train.memory.optimizers import StateKind, choose_states
from neox_train.memory.plan import OptimizerKind, RankPlan

_ALIGNMENT = 2
"""DeepSpeed pads every flat group to a multiple of this times the data-parallel size (4-byte starts in 16 bits)."""


@dataclass(frozen=True, slots=True)
class FlatGroup:
    """One optimizer group: the element counts of its parameters, in order, for a data-parallel size."""

    sizes: tuple[int, ...]
    data_parallel_size: int
    states: StateKind

    @property
    def count(self) -> int:
        """Elements without padding."""
        return sum(self.sizes)

    @property
    def padded(self) -> int:
        """Elements of the flat tensor."""
        multiple = _ALIGNMENT * self.data_parallel_size
        return -(-self.count // multiple) * multiple

    @property
    def partition(self) -> int:
        """Elements of one rank's share of the flat tensor."""
        return self.padded // self.data_parallel_size

    def list_touched(self) -> list[int]:
        """For every rank the elements of the parameters that have any part in its share, counted whole."""
        touched = [0] * self.data_parallel_size
        start = 0
        for size in self.sizes:
            for rank in range(start // self.partition, (start + size - 1) // self.partition + 1):
                touched[rank] += size
            start += size
        return touched

    def list_padding(self) -> list[int]:
        """For every rank the padding elements of its share."""
        shares = [(self.partition * rank, self.partition * (rank + 1)) for rank in range(self.data_parallel_size)]
        return [max(0, last - max(first, self.count)) for first, last in shares]


def list_groups(plan: RankPlan) -> tuple[FlatGroup, ...]:
    """The optimizer groups of a rank."""
    return _build_groups(
        plan.architecture,
        plan.links,
        plan.has_decay_groups,
        plan.optimizer,
        plan.data_parallel_size,
        plan.tensor_parallel_size,
    )


@lru_cache(maxsize=256)
def count_share_bytes(groups: tuple[FlatGroup, ...], weight_bytes: int, accumulation_bytes: int) -> int:
    """Bytes of the gradients that the most loaded rank of ZeRO 1 or 2 keeps for its share, padding included.

    Parameters at the edges of the share are kept whole; padding is filled with zeros of the accumulation's format.
    """
    by_rank = [0] * groups[0].data_parallel_size
    for group in groups:
        for rank, (touched, padding) in enumerate(zip(group.list_touched(), group.list_padding(), strict=True)):
            by_rank[rank] += weight_bytes * touched + accumulation_bytes * padding
    return max(by_rank)


@lru_cache(maxsize=256)
def count_first_parameters(architecture: Architecture, links: frozenset[str], tensor_parallel_size: int) -> int:
    """Elements of the parameters whose gradients come last: the embeddings' and the first layer's."""
    first = ("word_embeddings.", "position_embeddings.", "layers.0.")
    return sum(count_shard(p, tensor_parallel_size) for p in list_held(architecture, links) if p.name.startswith(first))


def list_held(architecture: Architecture, links: frozenset[str]) -> list[Parameter]:
    """Parameters of a rank with these links: the embeddings too where tied weights make the logits."""
    return [parameter for parameter in list_parameters(architecture) if _is_held(parameter, architecture, links)]


def _is_held(parameter: Parameter, architecture: Architecture, links: frozenset[str]) -> bool:
    owner = owner_of(parameter.name)
    makes_logits = architecture.tied_embeddings and OUTPUT in links and parameter.is_vocabulary
    return owner in links or owner.startswith("layers.") or makes_logits


def count_shard(parameter: Parameter, tensor_parallel_size: int) -> int:
    """Elements of a parameter that one tensor-parallel rank holds."""
    return parameter.count if parameter.shard_dim is None else parameter.count // tensor_parallel_size


@lru_cache(maxsize=256)
def _build_groups(
    architecture: Architecture,
    links: frozenset[str],
    has_decay_groups: bool,
    optimizer: OptimizerKind,
    ranks: int,
    tensor_parallel_size: int,
) -> tuple[FlatGroup, ...]:
    """Kept, because the search for remedies asks for the same groups hundreds of times."""
    groups = cut_groups(
        list_held(architecture, links),
        decay=has_decay_groups,
        eight_bit=optimizer in ("adam_8bit", "lion_8bit"),
        matrices_apart=optimizer == "muon" or architecture.mup_width is not None,
    )
    return tuple(
        FlatGroup(
            tuple(
                put_aligned_first(
                    (count_shard(p, tensor_parallel_size) for p in group.parameters), count=lambda elements: elements
                )
            ),
            ranks,
            choose_states(optimizer, is_embedding=group.is_embedding, is_hidden_matrix=group.is_hidden_matrix),
        )
        for group in groups
    )


def pair_states(groups: tuple[FlatGroup, ...], shares: list[int]) -> list[tuple[StateKind, int]]:
    """The kind of states of each group with the elements of it that a rank owns."""
    return [(group.states, share) for group, share in zip(groups, shares, strict=True)]
