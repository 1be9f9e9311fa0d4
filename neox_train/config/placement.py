"""Where the grid's groups lie on nodes, for ranks that fill one node after the other."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from neox_train.config.grid import Axis, GridShape


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """How many groups of each axis, and links between stages, cross from one node to another."""

    nodes: int
    tensor_groups: int
    tensor_groups_across: int
    replica_groups: int
    replica_groups_across: int
    stage_links: int
    stage_links_across: int

    def sentence(self) -> str:
        """For the head of a log."""
        told = [
            _tell("tensor-parallel groups", self.tensor_groups, self.tensor_groups_across),
            _tell("groups of replicas", self.replica_groups, self.replica_groups_across),
            _tell("links between stages", self.stage_links, self.stage_links_across),
        ]
        return f"{self.nodes} nodes; of " + ", ".join(each for each in told if each) + " cross nodes"

    def warning(self) -> str | None:
        """Where tensor parallelism leaves a node, which slows every layer."""
        if not self.tensor_groups_across:
            return None
        return (
            f"{self.tensor_groups_across} of {self.tensor_groups} tensor-parallel groups cross nodes, which slows "
            "every layer; set model_parallel_size to a divisor of the GPUs of a node"
        )


def place_groups(shape: GridShape, ranks_per_node: int) -> Placement:
    """Count what crosses nodes of ``ranks_per_node`` ranks each; the last node may be part full."""

    def across(*ranks: int) -> bool:
        return len({rank // ranks_per_node for rank in ranks}) > 1

    def count(axis: Axis) -> tuple[int, int]:
        groups = [group for group in shape.list_groups(axis) if len(group) > 1]
        return len(groups), sum(across(*group) for group in groups)

    tensor, tensor_across = count("tp")
    replicas, replicas_across = count("dp")
    links = [pair for group in shape.list_groups("pp") for pair in pairwise(group)]
    return Placement(
        nodes=-(-shape.size // ranks_per_node),
        tensor_groups=tensor,
        tensor_groups_across=tensor_across,
        replica_groups=replicas,
        replica_groups_across=replicas_across,
        stage_links=len(links),
        stage_links_across=sum(across(*pair) for pair in links),
    )


def _tell(name: str, count: int, across: int) -> str:
    return f"{count} {name} {across}" if count else ""
