"""Tensor parallelism stays inside a node; what crosses is counted."""

from itertools import pairwise, product
from pathlib import Path

import pytest

from neox_train.config.architecture import Architecture
from neox_train.config.grid import GridShape
from neox_train.config.load import load_config
from neox_train.config.parameters import count_parameters
from neox_train.config.placement import place_groups

CONFIGS = Path(__file__).parents[2] / "configs"


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


def cross_with_replicas_outermost(shape: GridShape, gpus: int) -> tuple[int, int]:
    """Groups of replicas and links between stages that would cross nodes in the other order."""
    dealt = [[(dp * shape.pp + pp) * shape.tp for pp in range(shape.pp)] for dp in range(shape.dp)]
    links = sum(a // gpus != b // gpus for pipeline in dealt for a, b in pairwise(pipeline))
    replicas = sum(len({pipeline[pp] // gpus for pipeline in dealt}) > 1 for pp in range(shape.pp))
    return replicas * shape.tp, links * shape.tp


@pytest.mark.parametrize(("pp", "dp", "tp"), [(2, 4, 2), (4, 2, 2), (4, 4, 1), (2, 8, 2), (8, 4, 1)])
def test_stages_outermost_cross_with_activations_what_replicas_outermost_would_cross_with_gradients(
    pp: int, dp: int, tp: int
) -> None:
    gpus = pp * tp if pp * tp >= dp * tp else dp * tp
    shape = GridShape(pp=pp, dp=dp, tp=tp)
    placement = place_groups(shape, gpus)
    replicas, links = cross_with_replicas_outermost(shape, gpus)
    assert placement.replica_groups_across == 0 < replicas == placement.replica_groups
    assert placement.stage_links_across > links


def test_of_20b_on_96_gpus_a_node_sends_fewer_bytes_than_with_replicas_outermost() -> None:
    # The layout of GPT-NeoX-20B: twelve replicas of four stages, two tensor-parallel ranks, batches of 3.15M tokens.
    config = load_config([CONFIGS / "20B.yml"], overrides={"train_batch_size": 1536}, world_size=96)
    shape, gpus, sixteen_bits = GridShape(pp=4, dp=12, tp=2), 8, 2
    parameters = count_parameters(Architecture.from_config(config.with_vocab_size(50_257)))
    # A ring leaves a node once, with the gradients of one rank, however many of its ranks are there.
    ring = 2 * (shape.dp - 1) / shape.dp * parameters / (shape.pp * shape.tp) * sixteen_bits
    # A stage sends activations to the next and their gradients to the one before; the two ends only one of them.
    sends_a_stage = 2 * (shape.pp - 1) / shape.pp
    activations = sends_a_stage * config.train_batch_size * config.seq_length / shape.dp * config.hidden_size
    stages_outermost = gpus * activations * sixteen_bits + shape.tp * ring
    replicas_outermost = gpus * ring
    assert cross_with_replicas_outermost(shape, gpus) == (gpus, 0)
    assert stages_outermost < 0.8 * replicas_outermost
