"""Tensor parallelism stays inside a node; what crosses is counted."""

from itertools import product

import pytest

from neox_train.config.grid import GridShape
from neox_train.config.placement import place_groups


@pytest.mark.parametrize(("gpus", "nodes"), [*product((2, 4, 8), (1, 2, 4, 8))])
def test_tensor_groups_stay_in_a_node_whenever_they_fit(gpus: int, nodes: int) -> None:
    tried = 0
    for tp, pp in product((1, 2, 4, 8), (1, 2, 4, 8)):
        if gpus % tp or (gpus * nodes) % (tp * pp):
            continue
        placement = place_groups(GridShape(pp=pp, dp=gpus * nodes // (tp * pp), tp=tp), gpus)
        assert placement.tensor_groups_across == 0
        assert placement.warning() is None
        assert placement.nodes == nodes
        if pp >= nodes and pp % nodes == 0:
            # A stage lies in one node: gradients are summed inside it, and a pipeline crosses at each node's end only.
            assert placement.replica_groups_across == 0
            assert placement.stage_links_across == gpus * nodes // pp * (nodes - 1)
        tried += 1
    assert tried


def test_a_degree_that_does_not_divide_a_node_is_told_with_the_remedy() -> None:
    placement = place_groups(GridShape(dp=2, tp=4), 6)
    assert (placement.tensor_groups, placement.tensor_groups_across) == (2, 1)
    assert "set model_parallel_size to a divisor" in (placement.warning() or "")


def test_counts_by_hand() -> None:
    # Two nodes of four: stage 0 is ranks 0-3, stage 1 ranks 4-7.
    placement = place_groups(GridShape(pp=2, dp=2, tp=2), 4)
    assert placement.sentence() == (
        "2 nodes; of 4 tensor-parallel groups 0, 4 groups of replicas 0, 4 links between stages 4 cross nodes"
    )
    assert place_groups(GridShape(dp=8), 4).sentence() == "2 nodes; of 1 groups of replicas 1 cross nodes"
