from __future__ import annotations

from pathlib import Path

import pytest

from neox_train.checkpoint.fragments import Fragment, FragmentIndex, Piece
from neox_train.errors import CheckpointError


@pytest.fixture
def index() -> FragmentIndex:
    return FragmentIndex([(Fragment("master", "w", 10, 6), "b"), (Fragment("master", "w", 0, 10), "a")])


def test_a_key_reads_back() -> None:
    fragment = Fragment("exp_avg", "layers.0.mlp.linear1.weight", 4096, 128, 1, 2)
    assert Fragment.parse(fragment.key, 128) == fragment


def test_a_slice_is_made_of_pieces_in_order(index: FragmentIndex) -> None:
    assert list(index.find("master", "w", 8, 5)) == [
        Piece("a", "master:w:0of1:0", 8, 2, 0),
        Piece("b", "master:w:0of1:10", 0, 3, 2),
    ]


def test_a_slice_inside_one_fragment_is_one_piece(index: FragmentIndex) -> None:
    assert list(index.find("master", "w", 11, 2)) == [Piece("b", "master:w:0of1:10", 1, 2, 0)]


def test_a_fragment_that_two_ranks_stored_is_read_once() -> None:
    twice = FragmentIndex([(Fragment("master", "w", 0, 4), "a"), (Fragment("master", "w", 0, 4), "b")])
    assert list(twice.find("master", "w", 0, 4)) == [Piece("a", "master:w:0of1:0", 0, 4, 0)]


@pytest.mark.parametrize(("start", "length"), [(0, 17), (16, 1)])
def test_a_missing_element_is_refused(index: FragmentIndex, start: int, length: int) -> None:
    with pytest.raises(CheckpointError, match="lacks elements 16 to 17 of w"):
        list(index.find("master", "w", start, length))


def test_a_gap_is_refused() -> None:
    holed = FragmentIndex([(Fragment("master", "w", 0, 4), "a"), (Fragment("master", "w", 6, 4), "b")])
    with pytest.raises(CheckpointError, match="lacks elements 4 to 10"):
        list(holed.find("master", "w", 0, 10))


def test_an_unknown_parameter_is_refused(index: FragmentIndex) -> None:
    with pytest.raises(CheckpointError, match="holds no weights of v"):
        index.shards("v")


def test_the_index_reads_back_from_its_file(index: FragmentIndex, tmp_path: Path) -> None:
    index.write(tmp_path)
    again = FragmentIndex.read(tmp_path)
    assert list(again.find("master", "w", 0, 16)) == list(index.find("master", "w", 0, 16))
    assert again.states("w") == ["master"]
