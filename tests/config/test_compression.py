from __future__ import annotations

import pytest

from neox_train.config.compression import choose_communication_type
from neox_train.config.support import list_unsupported, require_trainable
from neox_train.errors import ConfigError, NotBuiltError
from tests.config.files import load_tiny


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, None),
        ({"fp32_allreduce": True}, "fp32"),
        ({"communication_data_type": "fp16"}, "fp16"),
        ({"communication_data_type": "bfp16"}, "bf16"),
        ({"gradient_compression": "bf16"}, "bf16"),
        ({"gradient_compression": "fp16", "communication_data_type": "fp16"}, "fp16"),
    ],
)
def test_the_format_of_gradients_between_ranks(change: dict[str, object], expected: str | None) -> None:
    assert choose_communication_type(load_tiny(**change)) == expected


@pytest.mark.parametrize("method", ["powersgd", "local_update"])
@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        ({"zero_optimization": {"stage": 1}}, "zero_optimization.stage above 0 (set stage: 0)"),
        ({"model_parallel_size": 2, "processes": 2}, "model_parallel_size above 1 (set 1)"),
        ({"pipe_parallel_size": 2, "processes": 2}, "pipe_parallel_size above 1 (set 1)"),
        ({"precision": "fp16"}, "precision fp16 (set bfloat16)"),
        ({"use_bnb_optimizer": True}, "use_bnb_optimizer (set it to false)"),
        ({"prescale_gradients": True}, "prescale_gradients (set it to false)"),
        ({"gradient_predivide_factor": 2.0}, "gradient_predivide_factor (remove it)"),
    ],
)
def test_what_a_compression_does_not_go_with(method: str, change: dict[str, object], remedy: str) -> None:
    config = load_tiny(**{"zero_optimization": {"stage": 0}, "gradient_compression": method, **change})
    with pytest.raises(NotBuiltError) as refused:
        require_trainable(config)
    assert f"gradient_compression: {method} with {remedy}" in str(refused.value)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"gradient_compression": "bf16", "fp32_allreduce": True}, "fp32_allreduce"),
        ({"gradient_compression": "fp16", "communication_data_type": "bf16"}, "communication_data_type bf16"),
        ({"gradient_compression": "powersgd", "communication_data_type": "bf16"}, "communication_data_type"),
    ],
)
def test_two_formats_contradict(change: dict[str, object], named: str) -> None:
    (problem,) = list_unsupported(load_tiny(**{"zero_optimization": {"stage": 0}, **change}))
    assert named in problem


def test_a_word_that_is_no_compression_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="'none', 'bf16', 'fp16', 'powersgd' or 'local_update' is wanted"):
        load_tiny(gradient_compression="zip")
