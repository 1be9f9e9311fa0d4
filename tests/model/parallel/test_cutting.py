import pytest
import torch

from neox_train.model.parallel.cutting import cut, join

MATRIX = torch.arange(8 * 6).view(8, 6)


@pytest.mark.parametrize(("dim", "parts"), [(0, 1), (0, 2), (1, 1), (None, 1)])
@pytest.mark.parametrize("size", [1, 2])
def test_shards_join_to_the_whole(dim: int | None, parts: int, size: int) -> None:
    shards = [cut(MATRIX, dim=dim, parts=parts, rank=rank, size=size) for rank in range(size)]
    assert torch.equal(join(shards, dim=dim, parts=parts), MATRIX)


def test_each_rank_of_a_gated_matrix_has_rows_of_both_parts() -> None:
    first = cut(MATRIX, dim=0, parts=2, rank=0, size=2)
    assert torch.equal(first, MATRIX[[0, 1, 4, 5]])


def test_what_is_not_cut_is_whole_on_every_rank() -> None:
    assert cut(MATRIX, dim=None, parts=1, rank=1, size=4) is MATRIX
