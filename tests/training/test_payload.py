import pytest
import torch

from neox_train.training.payload import Payload, count_payload

VECTOR = torch.zeros(100)
HALF = torch.zeros(10, dtype=torch.bfloat16)


@pytest.mark.parametrize(
    ("kind", "arguments", "payload_bytes", "wire_bytes"),
    [
        ("all_reduce", {"tensor": VECTOR}, 400, 600.0),
        ("all_gather_into_tensor", {"output_tensor": VECTOR, "input_tensor": VECTOR[:25]}, 400, 300.0),
        ("reduce_scatter_tensor", {"output": VECTOR[:25], "input": VECTOR}, 400, 300.0),
        ("all_gather", {"tensor_list": [HALF] * 4, "tensor": HALF}, 80, 60.0),
        ("broadcast", {"tensor": HALF, "src": 0}, 20, 20.0),
        ("send", {"tensor": HALF, "dst": 1}, 20, 20.0),
    ],
)
def test_bytes_among_four_ranks(kind: str, arguments: dict, payload_bytes: int, wire_bytes: float) -> None:
    counted = count_payload(kind, arguments, 4)
    assert (counted.payload_bytes, counted.wire_bytes) == (payload_bytes, wire_bytes)


def test_the_type_on_the_wire_is_told() -> None:
    assert count_payload("all_reduce", {"tensor": HALF}, 2) == Payload(20, 20.0, "bfloat16")
