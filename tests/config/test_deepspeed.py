from __future__ import annotations

import json
from typing import Any

import pytest

from neox_train.config.deepspeed import deepspeed_json
from neox_train.config.extra_args import DEEPSPEED_KEYS
from tests.config.files import load_tiny, refuse_tiny


def test_batches_and_zero() -> None:
    config = load_tiny(processes=2, gradient_accumulation_steps=3, zero_optimization={"stage": 2})
    block = deepspeed_json(config)
    assert block["train_batch_size"] == 24
    assert block["train_micro_batch_size_per_gpu"] == 4
    assert block["gradient_accumulation_steps"] == 3
    assert block["zero_optimization"]["stage"] == 2
    assert block["zero_allow_untested_optimizer"] is True
    assert "optimizer" not in block
    json.dumps(block, allow_nan=False)


def test_clipping_is_always_an_explicit_number() -> None:
    assert deepspeed_json(load_tiny())["gradient_clipping"] == 1.0
    assert deepspeed_json(load_tiny(gradient_clipping=0))["gradient_clipping"] == 0.0
    assert deepspeed_json(load_tiny(gradient_clipping=0.25))["gradient_clipping"] == 0.25


def test_number_formats() -> None:
    assert not {"fp16", "bf16"} & deepspeed_json(load_tiny()).keys()
    half = deepspeed_json(load_tiny(fp16={"enabled": True, "initial_scale_power": 12}))
    assert half["fp16"]["initial_scale_power"] == 12
    assert half["fp16"]["loss_scale"] == 0.0
    brain = deepspeed_json(load_tiny(precision="bfloat16", zero_optimization={"stage": 1}))
    assert brain["bf16"] == {"enabled": True}
    assert brain["data_types"] == {"grad_accum_dtype": "fp32"}


def test_communication() -> None:
    assert "communication_data_type" not in deepspeed_json(load_tiny())
    assert deepspeed_json(load_tiny(fp32_allreduce=True))["communication_data_type"] == "fp32"
    assert deepspeed_json(load_tiny(communication_data_type="bfp16"))["communication_data_type"] == "bf16"


def test_extra_arguments_come_last() -> None:
    extra = {"comms_logger": {"enabled": True}, "wall_clock_breakdown": True}
    block = deepspeed_json(load_tiny(deepspeed_extra_args=extra))
    assert block["comms_logger"] == {"enabled": True}
    assert block["wall_clock_breakdown"] is True


def test_extra_arguments_may_not_replace_a_key() -> None:
    sentence = refuse_tiny(deepspeed_extra_args={"gradient_clipping": 0.5})
    assert "deepspeed_extra_args.gradient_clipping is 0.5, but gradient_clipping is 1.0" in sentence
    assert "bf16" in refuse_tiny(deepspeed_extra_args={"bf16": {"enabled": True}})
    assert "set optimizer at the top level" in refuse_tiny(deepspeed_extra_args={"optimizer": {"type": "Adam"}})
    assert "always true" in refuse_tiny(deepspeed_extra_args={"zero_allow_untested_optimizer": False})
    assert load_tiny(deepspeed_extra_args={"zero_allow_untested_optimizer": True})
    assert load_tiny(deepspeed_extra_args={"gradient_clipping": 1.0})


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (
            {"wall_clock_breakdwn": True},
            "is no key of DeepSpeed, which would pass over it; did you mean wall",
        ),
        ({"qqq": 1}, "deepspeed_extra_args.qqq is no key of DeepSpeed, which would pass over it; remove it"),
        ({"comms_logger": {"enbled": True}}, "comms_logger.enbled is no key of DeepSpeed's comms_logger; did you"),
        ({"comms_logger": True}, "a block of keys is wanted"),
        ({"wall_clock_breakdown": "maybe"}, "wall_clock_breakdown is 'maybe'; true or false is wanted"),
        ({"tensor_parallel": {"autotp_size": 2}}, "set model_parallel_size"),
    ],
)
def test_what_deepspeed_would_pass_over_is_refused(extra: dict[str, Any], words: str) -> None:
    assert words in refuse_tiny(deepspeed_extra_args=extra)


def test_the_table_has_every_top_level_key_that_deepspeed_reads() -> None:
    from deepspeed.runtime.config import DeepSpeedConfig

    asked: set[str] = set()

    class Names(set[str]):
        def __contains__(self, name: object) -> bool:
            asked.add(str(name))
            return super().__contains__(name)

    class Watched(dict[str, Any]):
        def __contains__(self, name: object) -> bool:
            asked.add(str(name))
            return super().__contains__(name)

        def get(self, name: str, default: Any = None) -> Any:
            asked.add(name)
            return super().get(name, default)

        def keys(self) -> Names:  # type: ignore[override]
            return Names(super().keys())

        def __copy__(self) -> Watched:
            return Watched(self)

    DeepSpeedConfig(Watched(train_batch_size=1))
    assert len(asked) > 40
    assert asked - set(DEEPSPEED_KEYS) == set()


def test_the_block_is_a_copy() -> None:
    config = load_tiny()
    deepspeed_json(config)["zero_optimization"]["stage"] = 3
    assert config.zero_optimization["stage"] == 0
