import torch

from neox_train.model.parallel.random import own_random_stream


def draw(rank: int) -> tuple[list[float], float]:
    """What one rank draws in its own stream, and afterwards in the shared one."""
    torch.manual_seed(5)
    torch.rand(3)
    with own_random_stream(rank):
        own = torch.rand(4).tolist()
    return own, float(torch.rand(()))


def test_ranks_draw_differently_inside_and_alike_afterwards() -> None:
    (first, after_first), (second, after_second) = draw(0), draw(1)
    assert first != second
    assert after_first == after_second


def test_each_block_draws_anew_and_a_repetition_draws_the_same() -> None:
    torch.manual_seed(5)
    with own_random_stream(0):
        first = torch.rand(4).tolist()
    with own_random_stream(0):
        second = torch.rand(4).tolist()
    assert first != second
    torch.manual_seed(5)
    with own_random_stream(0):
        assert torch.rand(4).tolist() == first
