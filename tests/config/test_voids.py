"""Keys that another key leaves nothing to do: each of the table is told where that is so, and only there."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from neox_train.config.architecture import Architecture
from neox_train.config.deepspeed import deepspeed_json
from neox_train.config.fp8 import FP8_PARAMETERS
from neox_train.config.keys import read_status
from neox_train.config.load import load_config
from neox_train.config.schema import NeoxConfig, NeoxKeys
from neox_train.config.sections.precision import Bf16Block, DataTypesBlock, Fp16Block
from neox_train.config.sections.zero import ZeroBlock
from neox_train.config.voids import VOIDS
from tests.config.files import TINY, load_tiny
from tests.config.void_cases import ALWAYS_ACT, BLOCK_KEYS_THAT_ACT, BY_DEVICE, CASES, REFUSED_ALONE, Change


def told(config: NeoxConfig, path: str) -> list[str]:
    return [sentence for sentence in config.notices if f" {path} has no effect here: " in sentence]


def load(path: str, value: Any, change: Change) -> NeoxConfig:
    return load_tiny(**change, **{path: value})


def test_every_key_is_decided() -> None:
    acting = {name for name, field in NeoxKeys.model_fields.items() if read_status(field) == "implemented"}
    single = {path for path in VOIDS if "." not in path}
    assert acting == single | ALWAYS_ACT | REFUSED_ALONE | BY_DEVICE | (set(FP8_PARAMETERS) - single)
    assert not single & (ALWAYS_ACT | REFUSED_ALONE | BY_DEVICE)
    assert CASES.keys() == VOIDS.keys()


@pytest.mark.parametrize(
    ("block", "kind"),
    [("fp16", Fp16Block), ("bf16", Bf16Block), ("data_types", DataTypesBlock), ("zero_optimization", ZeroBlock)],
)
def test_every_key_of_a_block_is_decided(block: str, kind: Any) -> None:
    from neox_train.config.refusals import BLOCK_REFUSALS

    left = set(kind.__annotations__) - BLOCK_KEYS_THAT_ACT
    refused = {path.partition(".")[2] for path in BLOCK_REFUSALS if path.startswith(block + ".")}
    assert left == refused | {path.partition(".")[2] for path in VOIDS if path.startswith(block + ".")}


@pytest.mark.parametrize("path", CASES)
def test_a_key_without_effect_is_told_and_has_none(path: str) -> None:
    value, voided, _ = CASES[path]
    for change in voided:
        with_key, without = load(path, value, change), load_tiny(**change)
        (sentence,) = told(with_key, path)
        assert sentence.startswith(f"override {path}: ")
        assert describe(with_key) == describe(without)


def describe(config: NeoxConfig) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the model is made from and what DeepSpeed is told, without numbers that are handed on unread."""
    json = deepspeed_json(config)
    for key in ("zero_optimization", "communication_data_type", "gradient_predivide_factor"):
        json.pop(key, None)
    json["fp16"] = {key: json.get("fp16", {}).get(key) for key in ("enabled", "loss_scale")}
    architecture = Architecture.from_config(config.with_vocab_size(300))
    model = dataclasses.asdict(architecture) | {"rotary_dim": architecture.rotary_dim}
    for key in ("rotary_pct", "rotary_emb_base", "init_method_std", "sliding_window", "local_block"):
        del model[key]
    return model, json


@pytest.mark.parametrize("path", [path for path, (_, _, acting) in CASES.items() if acting is not None])
def test_a_key_with_effect_is_not_told(path: str) -> None:
    value, _, acting = CASES[path]
    assert acting is not None
    assert told(load(path, value, acting), path) == []


def test_a_key_that_repeats_its_default_is_not_told() -> None:
    config = load_tiny(
        rms_norm_epsilon=1e-8,
        powersgd_rank=4,
        wsd_decay_fraction=0.1,
        pipe_partition_method="type:transformer|mlp",
        mup_init_scale=1.0,
        fp16={"enabled": False, "hysteresis": 2, "loss_scale": 0},
        zero_optimization={"stage": 0, "reduce_bucket_size": 500_000_000, "cpu_offload": False},
    )
    assert [sentence for sentence in config.notices if "no effect" in sentence] == []


def test_what_is_said_of_the_pipeline_without_stages() -> None:
    assert any("is_pipe_parallel has no effect here" in text for text in load_tiny(is_pipe_parallel=True).notices)
    assert not any("is_pipe_parallel" in text for text in load_tiny(pipe_parallel_size=2, processes=2).notices)


EXPECTED_OF_SHIPPED = {
    "synchronize_each_layer",
    "data_impl",
    "wall_clock_breakdown",
    "partition_activations",
    "scaled_upper_triang_masked_softmax_fusion",
    "zero_optimization.overlap_comm",
    "steps_per_print",
    "num_workers",
}
"""Keys of GPT-NeoX's own files that really do nothing here on eight processes."""


def test_shipped_files_have_no_other_notes(repository: Path) -> None:
    folder = repository / "configs"
    for file in sorted(folder.rglob("*.yml")):
        if file.parent.name == "demo" or file.stem in ("fp8", "local_setup"):
            continue
        notices = load_config([file], world_size=8).notices
        named = {text.partition(" has no effect")[0].split(": ")[-1] for text in notices if "no effect" in text}
        assert named <= EXPECTED_OF_SHIPPED, file


def test_file_and_line_of_a_key_inside_a_block_are_told(tmp_path: Path) -> None:
    file = tmp_path / "more.yml"
    file.write_text("zero_optimization:\n  stage: 1\n  stage3_max_reuse_distance: 10\n")
    notices = load_config([*TINY, file]).notices
    reason = "zero_optimization.stage3_max_reuse_distance has no effect here: zero_optimization.stage is 1"
    assert f"{file}, line 3: {reason}" in notices
