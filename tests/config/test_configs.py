"""The shipped GPT-NeoX files: they load, and describe the models they are named after."""

from __future__ import annotations

from pathlib import Path

import pytest

from neox_train.config.architecture import Architecture
from neox_train.config.hardware import uses_fp8
from neox_train.config.load import load_config
from neox_train.config.parameters import count_parameters
from neox_train.config.schema import NeoxConfig
from neox_train.config.support import list_unsupported, require_trainable
from tests.config.parameter_counts import count_non_embedding_parameters

PARAMETERS = {
    "19M": (70_426_624, 18_915_328),
    "49M": (113_625_600, 49_236_480),
    "125M": (162_322_944, 85_056_000),
    "bf16_125M": (162_322_944, 85_056_000),
    "bnb_125M": (162_322_944, 85_056_000),
    "350M": (405_334_016, 302_311_424),
    "760M": (834_493_440, 679_959_552),
    "800M": (1_011_781_632, 805_736_448),
    "1-3B": (1_414_647_808, 1_208_602_624),
    "1-3B-transformer-engine": (1_414_647_808, 1_208_602_624),
    "2-7B": (2_775_208_960, 2_517_652_480),
    "6-7B": (6_856_253_440, 6_444_163_072),
    "13B": (13_100_697_600, 12_585_584_640),
    "20B": (20_554_567_680, 19_934_859_264),
}


def load(repository: Path, name: str) -> NeoxConfig:
    return load_config([repository / "configs" / f"{name}.yml"], world_size=8).with_vocab_size(50257)


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_those_of_the_published_models(repository: Path, name: str) -> None:
    architecture = Architecture.from_config(load(repository, name))
    assert (count_parameters(architecture), count_non_embedding_parameters(architecture)) == PARAMETERS[name]


def test_every_shipped_size_is_checked(repository: Path) -> None:
    names = {file.stem for file in (repository / "configs").glob("*.yml")}
    assert names == PARAMETERS.keys() | {"local_setup"}


def test_the_hyperparameters_of_125m(repository: Path) -> None:
    config = load(repository, "125M")
    assert config.optimizer == {"type": "Adam", "params": {"lr": 0.0006, "betas": [0.9, 0.95], "eps": 1e-8}}
    assert (config.min_lr, config.weight_decay, config.gradient_clipping) == (0.00006, 0.1, 1.0)
    assert (config.lr_decay_style, config.lr_decay_iters, config.warmup) == ("cosine", 320000, 0.01)
    assert (config.init_method, config.output_layer_init_method) == ("small_init", "wang_init")
    assert (config.precision, config.zero_stage, config.train_batch_size) == ("fp16", 1, 32)
    require_trainable(config)


def test_bfloat16_125m_falls_back_to_the_default_initial_values(repository: Path) -> None:
    config = load(repository, "bf16_125M")
    assert (config.init_method, config.output_layer_init_method, config.min_lr) == ("normal", "scaled_normal", 0.0)
    assert (config.precision, config.zero_stage, config.weight_decay) == ("bfloat16", 0, 0.0)
    require_trainable(config)


def test_8_bit_125m(repository: Path) -> None:
    config = load(repository, "bnb_125M")
    assert config.use_bnb_optimizer and config.precision == "fp16"
    require_trainable(config)


def test_transformer_engine_file_is_16_bit_and_refused_in_words(repository: Path) -> None:
    config = load(repository, "1-3B-transformer-engine")
    assert not uses_fp8(config)
    assert any("do not switch FP8 on" in sentence for sentence in config.notices)
    assert list_unsupported(config) == ["te_layernorm_mlp: true", "te_mha: true"]


def test_20b(repository: Path) -> None:
    config = load(repository, "20B")
    assert (config.data_parallel_size, config.train_batch_size, config.padded_vocab_size) == (1, 128, 50432)
    assert config.gradient_accumulation_steps == 32


def test_paths_stack_on_a_size(repository: Path) -> None:
    folder = repository / "configs"
    config = load_config([folder / "125M.yml", folder / "local_setup.yml"])
    assert (config.save, config.load, config.log_dir) == ("checkpoints", "checkpoints", "logs")


@pytest.mark.parametrize("residual", ["serial", "parallel"])
def test_the_demo_trains_on_this_machine(repository: Path, residual: str) -> None:
    folder = repository / "configs" / "demo"
    config = load_config([folder / "base.yml", folder / f"{residual}.yml"], world_size=2)
    require_trainable(config)
    assert config.gpt_j_residual is (residual == "parallel")
    assert (config.precision, config.zero_stage, config.distributed_backend) == ("fp32", 1, "gloo")
