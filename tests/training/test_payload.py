import inspect

import pytest
import torch.distributed

from neox_train.training.payload import KINDS, payload_argument, wire_share


@pytest.mark.parametrize(
    ("kind", "argument", "share"),
    [
        ("all_reduce", "tensor", 1.5),
        ("all_gather_into_tensor", "output_tensor", 0.75),
        ("reduce_scatter_tensor", "input", 0.75),
        ("all_gather", "tensor_list", 0.75),
        ("broadcast", "tensor", 1.0),
        ("send", "tensor", 1.0),
    ],
)
def test_payload_and_what_one_of_four_ranks_sends_of_it(kind: str, argument: str, share: float) -> None:
    assert (payload_argument(kind), wire_share(kind, 4)) == (argument, share)


@pytest.mark.parametrize("kind", KINDS)
def test_torch_s_collectives_have_these_arguments(kind: str) -> None:
    assert {payload_argument(kind), "group"} <= set(inspect.signature(getattr(torch.distributed, kind)).parameters)
