import pytest

from neox_train.config.grid import GridShape, Place

SHAPE = GridShape(pp=2, dp=3, tp=2)


def test_tensor_ranks_are_neighbours_and_stages_are_far_apart() -> None:
    assert [SHAPE.place_of(rank) for rank in (0, 1, 2, 6, 11)] == [
        Place(0, 0, 0),
        Place(0, 0, 1),
        Place(0, 1, 0),
        Place(1, 0, 0),
        Place(1, 2, 1),
    ]


def test_a_rank_and_its_place_name_each_other() -> None:
    assert [SHAPE.rank_of(SHAPE.place_of(rank)) for rank in range(SHAPE.size)] == list(range(12))


@pytest.mark.parametrize(
    ("axes", "groups"),
    [
        (("tp",), [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11)]),
        (("dp",), [(0, 2, 4), (1, 3, 5), (6, 8, 10), (7, 9, 11)]),
        (("pp",), [(0, 6), (1, 7), (2, 8), (3, 9), (4, 10), (5, 11)]),
        (("pp", "tp"), [(0, 1, 6, 7), (2, 3, 8, 9), (4, 5, 10, 11)]),
    ],
)
def test_groups_vary_on_their_axes_alone(axes: tuple, groups: list) -> None:
    assert SHAPE.list_groups(*axes) == groups


def test_every_group_of_one_rank_is_that_rank() -> None:
    assert GridShape().list_groups("tp") == [(0,)]


def test_the_order_is_that_of_deepspeed() -> None:
    topology = pytest.importorskip("deepspeed.runtime.pipe.topology")
    theirs = topology.PipeModelDataParallelTopology(num_pp=2, num_mp=2, num_dp=3)
    for rank in range(SHAPE.size):
        place = SHAPE.place_of(rank)
        assert theirs.get_rank(pipe=place.pp, data=place.dp, model=place.tp) == rank
