"""Signs and their scales: what a block sends is its signs at its root mean square, and nothing where it is zero."""

import pytest
import torch

from neox_train.training.compression.one_bit_exchange import (
    BLOCK,
    measure_scales,
    pack_signs,
    restore_signs,
    unpack_signs,
)


def compress(values: torch.Tensor) -> torch.Tensor:
    signs = pack_signs(values.reshape(-1)).view(len(values), -1)
    return restore_signs(signs, measure_scales(values))


def test_signs_come_back_in_their_places() -> None:
    values = torch.randn(64, generator=torch.Generator().manual_seed(1))
    assert torch.equal(unpack_signs(pack_signs(values)), torch.where(values >= 0, 1.0, -1.0))


@pytest.mark.parametrize("length", [8, BLOCK, BLOCK + 8, 3 * BLOCK])
def test_every_block_keeps_its_norm(length: int) -> None:
    values = torch.randn(2, length, generator=torch.Generator().manual_seed(2)) * torch.tensor([[1.0], [100.0]])
    sent = compress(values)
    for own, other in zip(values.split(BLOCK, dim=1), sent.split(BLOCK, dim=1), strict=True):
        assert torch.allclose(own.norm(dim=1), other.norm(dim=1), rtol=1e-5)
    assert torch.equal(sent >= 0, values >= 0)


def test_a_block_of_zeros_sends_zeros() -> None:
    # A row of the embeddings that no token touched gets no noise from the rows beside it.
    values = torch.cat([torch.ones(1, BLOCK), torch.zeros(1, BLOCK)], dim=1)
    assert torch.equal(compress(values), values)
