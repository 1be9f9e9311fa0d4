import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neox_train.data.order import Permutation, SampleOrder
from neox_train.errors import DataError


@pytest.mark.parametrize("size", [*range(1, 70), 255, 256, 257, 1000, 4095, 4096, 4097, 10_007])
def test_every_epoch_is_a_permutation(size):
    for epoch in (0, 1):
        permutation = Permutation(size, seed=1234, epoch=epoch)
        assert sorted(permutation[index] for index in range(size)) == list(range(size))


@settings(max_examples=50, deadline=None)
@given(size=st.integers(1, 3000), seed=st.integers(-(2**70), 2**70), epoch=st.integers(0, 2**40))
def test_any_size_seed_and_epoch_permute(size, seed, epoch):
    permutation = Permutation(size, seed, epoch)
    assert len({permutation[index] for index in range(size)}) == size


def test_huge_ranges_need_no_table():
    size = 10**13
    permutation = Permutation(size, seed=1)
    images = [permutation[index] for index in range(0, size, size // 997)]
    assert len(set(images)) == len(images) and all(0 <= image < size for image in images)
    with pytest.raises(IndexError):
        permutation[size]


def test_the_order_is_fixed_for_ever():
    order = SampleOrder(1000, seed=1234)
    assert [order[sample] for sample in (0, 1, 2, 999, 1000, 1001, 2500)] == [584, 550, 922, 890, 977, 358, 118]


def test_epochs_and_seeds_differ():
    order, other = SampleOrder(500, seed=1), SampleOrder(500, seed=2)
    epochs = [[order[epoch * 500 + index] for index in range(500)] for epoch in range(3)]
    assert all(sorted(epoch) == list(range(500)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    assert epochs[0] != [other[index] for index in range(500)]


def test_places_and_neighbours_are_spread_evenly():
    """Each element's place over many seeds is uniform: chi-square (19 degrees of freedom) below its 1e-5 tail."""
    size, seeds = 20, 1500
    images = np.array([[Permutation(size, seed)[index] for index in range(size)] for seed in range(seeds)])
    expected = seeds / size
    for column in images.T:
        assert ((np.bincount(column, minlength=size) - expected) ** 2 / expected).sum() < 58
    rises = (np.diff(images, axis=1) == 1).sum() / (seeds * (size - 1))
    assert abs(rises - 1 / size) < 0.006


def test_no_window_is_one_sentence():
    with pytest.raises(DataError, match="seq_length"):
        SampleOrder(0, seed=1)
