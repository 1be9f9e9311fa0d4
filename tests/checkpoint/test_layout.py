"""How flat partitions map to parameters, held against cutting a real flat buffer."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from neox_train.checkpoint.adapters.held import Segment, lay_out

COUNTS = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def test_a_window_cuts_the_parameters_it_meets() -> None:
    parameters = [("a", 4), ("b", 3), ("c", 5)]
    assert lay_out(parameters, 3, 9) == [Segment("a", 3, 1, 0), Segment("b", 0, 3, 1), Segment("c", 0, 2, 4)]
    assert lay_out(parameters, 12, 16) == []


@given(counts=COUNTS, ranks=st.integers(1, 5))
def test_the_windows_of_all_ranks_give_back_every_parameter(counts: list[int], ranks: int) -> None:
    parameters = [(str(index), count) for index, count in enumerate(counts)]
    total = sum(counts)
    share = -(-total // ranks)
    flat = torch.arange(share * ranks)
    rebuilt = {name: torch.full((count,), -1) for name, count in parameters}
    for rank in range(ranks):
        partition = flat[rank * share : (rank + 1) * share]
        for s in lay_out(parameters, rank * share, (rank + 1) * share):
            rebuilt[s.name][s.start : s.start + s.length] = partition[s.offset : s.offset + s.length]
    assert torch.cat(list(rebuilt.values())).tolist() == list(range(total))
