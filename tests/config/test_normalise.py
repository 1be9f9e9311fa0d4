from __future__ import annotations

from pathlib import Path

import pytest

from neox_train.config.load import load_config
from neox_train.config.retired import RETIRED
from neox_train.config.schema import NeoxConfig, NeoxKeys
from tests.config.files import TINY, load_tiny, refuse, refuse_tiny


def test_gas_is_read_as_accumulation_steps() -> None:
    config = load_tiny(gas=4)
    assert (config.gradient_accumulation_steps, config.train_batch_size) == (4, 16)
    assert any("gas is the retired name of gradient_accumulation_steps" in sentence for sentence in config.notices)


def test_clip_grad_is_read_as_gradient_clipping() -> None:
    config = load_tiny(clip_grad=0.25)
    assert config.gradient_clipping == 0.25
    assert any("clip_grad" in sentence and "gradient_clipping" in sentence for sentence in config.notices)
    assert "clip_grad is 0.25 and gradient_clipping is 0.5" in refuse_tiny(clip_grad=0.25, gradient_clipping=0.5)
    assert "clip_grad is 1.0 and gradient_clipping is 0.5" in refuse_tiny(clip_grad=1.0, gradient_clipping=0.5)


@pytest.mark.parametrize("name", [name for name, entry in RETIRED.items() if entry.today is None])
def test_other_retired_names_are_refused_by_name(name: str) -> None:
    assert f"override {name}: {name} {RETIRED[name].sentence}" == refuse_tiny(**{name: 1})


def test_no_retired_name_is_a_key() -> None:
    assert not RETIRED.keys() & (NeoxKeys.model_fields.keys() | NeoxConfig.model_fields.keys())
    assert all(entry.today in NeoxKeys.model_fields for entry in RETIRED.values() if entry.today is not None)


def test_literals_in_any_capitals() -> None:
    config = load_tiny(norm="LayerNorm", activation="SwiGLU", lr_decay_style="COSINE")
    assert (config.norm, config.activation, config.lr_decay_style) == ("layernorm", "swiglu", "cosine")


@pytest.mark.parametrize(("key", "typed"), [("save", "false"), ("save", "5"), ("data_path", "2024"), ("load", "1e3")])
def test_a_path_is_text(tmp_path: Path, key: str, typed: str) -> None:
    file = tmp_path / "more.yml"
    file.write_text(f"{key}: {typed}\n")
    sentence = refuse(lambda: load_config([*TINY, file]))
    assert f"{file}, line 1: {key} is " in sentence and "text is wanted, in quotes where it reads as" in sentence
    file.write_text(f'{key}: "{typed}"\n')
    assert getattr(load_config([*TINY, file]), key) == typed


def test_a_name_may_be_a_number(tmp_path: Path) -> None:
    assert load_tiny(wandb_run_name=7, account=123456).wandb_run_name == "7"
    assert "wandb_run_name is true; text is wanted" in refuse_tiny(wandb_run_name=True)
