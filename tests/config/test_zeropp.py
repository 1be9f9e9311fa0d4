from __future__ import annotations

import pytest

from neox_train.config.hardware import require_hardware
from neox_train.config.support import list_unsupported
from neox_train.errors import ConfigError
from tests.config.files import load_tiny
from tests.memory.plans import make_cluster


def block(**keys: object) -> dict[str, object]:
    return {"zero_optimization": {"stage": 3, **keys}}


@pytest.mark.parametrize("key", ["zero_quantized_weights", "zero_quantized_gradients"])
def test_quantised_keys_pass_at_stage_3_on_gpus_and_are_refused_on_cpus(key: str) -> None:
    config = load_tiny(**block(**{key: True}), precision="bfloat16", communication_data_type="fp16")
    assert list_unsupported(config) == []
    with pytest.raises(ConfigError, match=f"zero_optimization.{key} needs a GPU, .* has CPUs; remove it"):
        require_hardware(config, make_cluster())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (block(stage=2, zero_quantized_gradients=True), "zero_quantized_gradients at zero_optimization.stage 2"),
        (block(stage=1, zero_hpz_partition_size=2) | {"processes": 2}, "zero_hpz_partition_size at zero_optimization"),
        (block(zero_quantized_weights=True), "zero_quantized_weights with precision fp32 (set bfloat16)"),
        (
            block(zero_quantized_gradients=True) | {"precision": "bfloat16"},
            "zero_quantized_gradients with gradients that travel in bf16 (set communication_data_type: fp16",
        ),
        (block(zero_hpz_partition_size=3) | {"processes": 4}, "3 does not divide the 4 data-parallel ranks"),
        (
            block(zero_hpz_partition_size=2) | {"processes": 4, "model_parallel_size": 2},
            "zero_hpz_partition_size with model_parallel_size or pipe_parallel_size above 1 (set 1)",
        ),
    ],
)
def test_what_zeropp_does_not_go_with(change: dict[str, object], problem: str) -> None:
    problems = list_unsupported(load_tiny(**{"precision": "fp32", **change}))
    assert any(problem in found for found in problems), problems


def test_hpz_goes_with_full_precision() -> None:
    assert list_unsupported(load_tiny(**block(zero_hpz_partition_size=2), processes=4)) == []
