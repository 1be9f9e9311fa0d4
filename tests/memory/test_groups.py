"""Flat groups: padding, shares, and the parameters that touch them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from neox_train.memory.groups import FlatGroup, count_share_bytes, list_groups
from tests.memory.plans import make_plan

SIZES = st.lists(st.integers(1, 500), min_size=1, max_size=12).map(tuple)
RANKS = st.integers(1, 9)


@given(SIZES, RANKS)
def test_shares_are_equal_and_cover_the_group(sizes: tuple[int, ...], ranks: int) -> None:
    group = FlatGroup(sizes, ranks, "adam")
    assert group.partition * ranks == group.padded
    assert sum(sizes) <= group.padded < sum(sizes) + 2 * ranks
    assert group.partition % 2 == 0


@given(SIZES, RANKS)
def test_touched_parameters_are_those_with_an_element_in_the_share(sizes: tuple[int, ...], ranks: int) -> None:
    group = FlatGroup(sizes, ranks, "adam")
    owners = [index // group.partition for index in range(sum(sizes))]
    expected, start = [0] * ranks, 0
    for size in sizes:
        for rank in set(owners[start : start + size]):
            expected[rank] += size
        start += size
    assert group.list_touched() == expected


def test_matrices_and_the_rest_are_two_groups() -> None:
    plan = make_plan(weight_decay=0.1)
    decayed, others = list_groups(plan)
    width, layers = plan.architecture.hidden_size, plan.architecture.num_layers
    assert decayed.count == 2 * 256 * width + layers * 12 * width**2
    assert others.count == layers * 13 * width + 2 * width


def test_one_group_when_nothing_decays() -> None:
    (group,) = list_groups(make_plan(weight_decay=0.0))
    assert group.count == sum(part.count for part in list_groups(make_plan(weight_decay=0.1)))


@given(SIZES, RANKS)
def test_padding_is_at_the_end(sizes: tuple[int, ...], ranks: int) -> None:
    group = FlatGroup(sizes, ranks, "adam")
    filled = [index < sum(sizes) for index in range(group.padded)]
    shares = [filled[group.partition * rank : group.partition * (rank + 1)] for rank in range(ranks)]
    assert group.list_padding() == [share.count(False) for share in shares]


def test_one_rank_keeps_every_gradient_once() -> None:
    groups = list_groups(make_plan(world_size=1))
    padding = sum(group.padded - group.count for group in groups)
    assert count_share_bytes(groups, 2, 4) == 2 * sum(group.count for group in groups) + 4 * padding
