"""The shipped GPT-NeoX files: they load, and describe the models they are named after."""

from __future__ import annotations

from pathlib import Path

import pytest

from neox_train.config.architecture import Architecture
from neox_train.config.fp8 import uses_fp8
from neox_train.config.load import load_config
from neox_train.config.parameters import count_non_embedding_parameters, count_parameters
from neox_train.config.schema import NeoxConfig
from neox_train.config.support import list_unsupported, require_trainable

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
    "175B": (175_197_806_592, 173_961_535_488),
    "pythia/14M": (14_067_712, 1_189_888),
    "pythia/31M": (30_494_720, 4_739_072),
    "pythia/70M": (70_426_624, 18_915_328),
    "pythia/160M": (162_322_944, 85_056_000),
    "pythia/410M": (405_334_016, 302_311_424),
    "pythia/1B": (1_011_781_632, 805_736_448),
    "pythia/1.4B": (1_414_647_808, 1_208_602_624),
    "pythia/2.8B": (2_775_208_960, 2_517_652_480),
    "pythia/6.9B": (6_857_302_016, 6_444_163_072),
    "pythia/12B": (11_846_072_320, 11_327_027_200),
}


def load(repository: Path, name: str) -> NeoxConfig:
    return load_config([repository / "configs" / f"{name}.yml"], world_size=8).with_vocab_size(50257)


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_those_of_the_published_models(repository: Path, name: str) -> None:
    architecture = Architecture.from_config(load(repository, name))
    assert (count_parameters(architecture), count_non_embedding_parameters(architecture)) == PARAMETERS[name]


def test_every_shipped_size_is_checked(repository: Path) -> None:
    folder = repository / "configs"
    names = {str(file.relative_to(folder).with_suffix("")) for file in folder.rglob("*.yml")}
    assert {name for name in names if not name.startswith("demo/")} == PARAMETERS.keys() | {"local_setup", "fp8"}


@pytest.mark.parametrize("name", [name for name in PARAMETERS if name.startswith("pythia/")])
def test_pythia_trains_on_global_batches_of_two_million_tokens(repository: Path, name: str) -> None:
    config = load(repository, name)
    assert config.train_batch_size * config.seq_length == 2_097_152
    assert config.min_lr == pytest.approx(config.lr / 10)
    assert (config.gpt_j_residual, config.rotary_pct, config.train_iters) == (True, 0.25, 143_000)
    require_trainable(config)


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


def test_transformer_engine_file_is_16_bit(repository: Path) -> None:
    config = load(repository, "1-3B-transformer-engine")
    assert not uses_fp8(config)
    assert any("do not switch FP8 on" in sentence for sentence in config.notices)
    assert list_unsupported(config) == []


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
