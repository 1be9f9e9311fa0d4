"""Which implementation the keys of speed and recomputation choose, and what cannot hold together."""

from __future__ import annotations

from typing import Any

import pytest

from neox_train.config.implementations import Implementations
from neox_train.errors import NotBuiltError
from tests.memory.plans import make_config

TENSOR = {"model_parallel_size": 2}


def choose(device: Any = "cuda", **keys: Any) -> Implementations:
    return Implementations.choose(make_config(checkpoint_activations=True, **keys), device)


def test_compiled_layers_need_no_selective_recomputation() -> None:
    assert choose(checkpoint_granularity="selective").checkpoint_layers == 0
    assert choose(checkpoint_granularity="selective", torch_compile=False).checkpoint_layers == 1
    kept = {"checkpoint_granularity": "selective", "checkpoint_in_cpu": True}
    assert choose(**kept, torch_compile=False).checkpoint_layers == 1
    assert choose("cpu", checkpoint_granularity="selective", checkpoint_num_layers=3).checkpoint_layers == 3
    assert choose().checkpoint_layers == 1


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (
            {"checkpoint_granularity": "selective", "zero_optimization": {"stage": 3}},
            "selective is not built with zero_optimization.stage 3",
        ),
        ({"checkpoint_granularity": "selective", "te_mha": True}, "selective is not built with te_"),
        (
            {"checkpoint_granularity": "selective", "checkpoint_in_cpu": True},
            "checkpoint_in_cpu has nothing to work on",
        ),
        ({"checkpoint_granularity": "selective", "checkpoint_num_layers": 2}, "checkpoint_num_layers has nothing to"),
        ({"checkpoint_in_cpu": True, "te_mha": True}, "checkpoint_in_cpu: true is not built with te_"),
        ({"checkpoint_in_cpu": True, "partition_activations": True, **TENSOR}, "not built with partition_activations"),
    ],
)
def test_what_cannot_hold_together_is_named(keys: dict[str, Any], sentence: str) -> None:
    with pytest.raises(NotBuiltError, match=sentence):
        choose(**keys)
