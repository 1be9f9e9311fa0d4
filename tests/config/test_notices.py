"""What is said once of numbers that act otherwise than one may think."""

from __future__ import annotations

from pathlib import Path

import pytest

from neox_train.config.load import load_config
from tests.config.files import TINY, load_tiny, refuse_tiny


@pytest.mark.parametrize("activation", ["swiglu", "geglu", "reglu", "glu", "bilinear"])
def test_the_width_of_a_gated_mlp_is_printed(activation: str) -> None:
    config = load_tiny(activation=activation, intermediate_size=96)
    (sentence,) = [text for text in config.notices if "gated width" in text]
    assert sentence == (
        f"override intermediate_size: intermediate_size 96 gives activation {activation} a gated width of 32, as in "
        "GPT-NeoX; for a width W write intermediate_size: 3 x W (288 for 96)"
    )
    assert load_tiny(activation=activation, intermediate_size=288).ffn_width == 96


def test_a_width_by_default_or_by_a_factor_is_printed_too() -> None:
    default = [text for text in load_tiny(activation="swiglu").notices if "gated width" in text]
    assert len(default) == 1 and "intermediate_size 256 (4 x hidden_size) gives activation swiglu" in default[0]
    factor = [text for text in load_tiny(activation="swiglu", expansion_factor=3.0).notices if "gated width" in text]
    assert len(factor) == 1 and "expansion_factor 3.0 gives activation swiglu a gated width of 64" in factor[0]
    assert not any("gated width" in text for text in load_tiny(activation="gelu", intermediate_size=96).notices)


def test_file_and_line_lead_the_note(tmp_path: Path) -> None:
    file = tmp_path / "more.yml"
    file.write_text("activation: swiglu\nintermediate_size: 192\nextra_save_iters: [0, 5, 21, 30]\n")
    notices = load_config([*TINY, file]).notices
    assert any(text.startswith(f"{file}, line 2: intermediate_size 192 gives") for text in notices)
    assert f"{file}, line 3: extra_save_iters 21, 30 lie beyond train_iters 20 and are not reached" in notices


def test_more_layers_together_than_there_are() -> None:
    notices = load_tiny(checkpoint_activations=True, checkpoint_num_layers=3).notices
    assert any(
        "checkpoint_num_layers 3 is more than num_layers 2: all layers are recomputed together" in t for t in notices
    )
    assert not any("is more than" in t for t in load_tiny(checkpoint_activations=True, checkpoint_num_layers=2).notices)
    assert not any("lie beyond" in t for t in load_tiny(extra_save_iters=[0, 20]).notices)
    assert not any("lie beyond" in t for t in load_tiny(extra_save_iters=[99], train_iters=None).notices)


@pytest.mark.parametrize(
    ("keys", "width"),
    [
        ({"intermediate_size": 1}, 1),
        ({"intermediate_size": 172, "activation": "swiglu"}, 57),
        ({"expansion_factor": 0.5}, 32),
    ],
)
def test_an_mlp_narrower_than_the_model_is_told(keys: dict[str, object], width: int) -> None:
    (key, *_) = keys
    notices = load_tiny(**keys).notices
    assert any(
        text.startswith(f"override {key}: the MLP is {width} wide, narrower than hidden_size 64") for text in notices
    ), notices
    assert not any("narrower" in text for text in load_tiny(intermediate_size=64).notices)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"gradient_compression": "powersgd", "powersgd_start_step": 20}, "would begin after step 20"),
        ({"gradient_compression": "local_update", "local_update_start_step": 99}, "would begin after step 99"),
    ],
)
def test_a_compression_that_never_begins_is_told(changes: dict[str, object], told: str) -> None:
    notices = load_tiny(**changes, train_iters=20).notices
    assert [told in notice and "all gradients travel whole" in notice for notice in notices].count(True) == 1
    assert not any("an outer step every" in notice for notice in notices)
    assert not any("would begin" in notice for notice in load_tiny(**changes, train_iters=200).notices)


def test_what_data_path_does_beside_a_blend_is_told() -> None:
    blend = {"train_data_paths": ["a", "b"], "train_data_weights": [1, 2]}
    (notice,) = [notice for notice in load_tiny(data_path="c", **blend).notices if "train_data_paths" in notice]
    assert notice.endswith("data_path gives the tokenizer and the validation; the training reads train_data_paths")
    assert not any("the training reads" in notice for notice in load_tiny(data_path="c").notices)


def test_an_old_file_s_type_of_number_is_followed_and_told(tmp_path: Path) -> None:
    file = tmp_path / "old.yml"
    file.write_text('"fp16": {"fp16": true, "enabled": true, "type": "bfloat16", "loss_scale": 0}\n')
    config = load_config([*TINY, file])
    assert config.precision == "bfloat16"
    assert any(f"{file}, line 1: fp16.type bfloat16 trains in bfloat16" in notice for notice in config.notices)
    again = load_tiny(**{"fp16": config.fp16, "bf16": config.bf16, "precision": config.precision})
    assert again.precision == "bfloat16"


def test_parameters_of_an_optimizer_without_effect_are_told() -> None:
    params = {"lr": 1e-3, "torch_adam": True, "bias_correction": True}
    notices = load_tiny(optimizer={"type": "Adam", "params": params}).notices
    told = [notice for notice in notices if "has no effect here" in notice]
    assert [notice.split(" has no")[0].rsplit(" ", 1)[1] for notice in told] == [
        "optimizer.params.torch_adam",
        "optimizer.params.bias_correction",
    ]


def test_degrees_that_the_processes_can_be_cut_into_are_named() -> None:
    sentence = refuse_tiny(processes=8, model_parallel_size=2, pipe_parallel_size=3, num_layers=6)
    assert "set model_parallel_size 2 with pipe_parallel_size 1 or 2 or 4, or use a multiple of 6 processes" in sentence
