from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from neox_train.config.load import load_config, write_config
from tests.config.files import CASES, TINY, load_tiny, refuse, refuse_tiny


def test_defaults_and_derived_values() -> None:
    config = load_tiny(processes=2)
    assert config.world_size == config.data_parallel_size == 2
    assert (config.train_batch_size, config.gradient_accumulation_steps) == (8, 1)
    assert config.attention_layers == ["global", "global"]
    assert config.ffn_width == 256
    assert config.precision == "fp32"
    assert config.num_kv_heads is None
    assert config.vocab_size is config.padded_vocab_size is None


def test_the_number_of_processes() -> None:
    assert load_tiny().world_size == 1
    assert load_tiny(global_num_gpus=4).world_size == 4
    assert load_tiny(global_num_gpus=4, processes=2).world_size == 2
    assert load_tiny(global_num_gpus=8, model_parallel_size=2, pipe_parallel_size=2).data_parallel_size == 2
    sentence = refuse_tiny(processes=3, model_parallel_size=2)
    assert "3 processes (nodes x processes_per_node) cannot be cut into model_parallel_size 2" in sentence
    assert "world_size is 3, but 2 processes" in refuse_tiny(processes=2, world_size=3)


@pytest.mark.parametrize("stages", [0, 1])
def test_no_pipeline_has_two_spellings(stages: int) -> None:
    config = load_tiny(pipe_parallel_size=stages)
    assert config.is_pipe_parallel is False
    assert config.data_parallel_size == 1


def test_a_tensor_parallel_degree_of_zero_is_one() -> None:
    assert load_tiny(model_parallel_size=0).model_parallel_size == 1


@pytest.mark.parametrize(
    ("vocab_size", "tensor", "padded"), [(50257, 1, 50304), (50277, 2, 50432), (50257, 4, 50688), (50257, 8, 51200)]
)
def test_padding_of_the_vocabulary(vocab_size: int, tensor: int, padded: int) -> None:
    config = load_tiny(
        processes=tensor, model_parallel_size=tensor, hidden_size=128, num_attention_heads=8
    ).with_vocab_size(vocab_size)
    assert (config.vocab_size, config.padded_vocab_size) == (vocab_size, padded)


@pytest.mark.parametrize(("norm", "epsilon"), [("layernorm", 1e-5), ("rmsnorm", 1e-8), ("te_rmsnorm", 1e-8)])
def test_epsilon_of_the_norm_in_use(norm: str, epsilon: float) -> None:
    assert load_tiny(norm=norm).norm_epsilon == epsilon
    assert load_tiny(norm=norm, layernorm_epsilon=1e-3, rms_norm_epsilon=1e-3).norm_epsilon == 1e-3


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"precision": "fp16"},
        {"precision": "bfloat16", "zero_optimization": {"stage": 2}},
        {"activation": "swiglu", "intermediate_size": 192, "num_kv_heads": 2},
        {"optimizer": {"type": "Adam", "params": {"lr": 1e-3 / 3, "betas": [0.9, 0.95]}}, "min_lr": 1e-300},
        {"model_parallel_size": 2, "processes": 4, "attention_config": [[["flash"], "all"]]},
        {"deepspeed_extra_args": {"comms_logger": {"enabled": True}}, "prompt_end": "\n \t#x: 'y'"},
    ],
)
def test_config_yml_reads_back_equal(tmp_path: Path, overrides: dict[str, object]) -> None:
    config = load_tiny(**overrides).with_vocab_size(300)
    write_config(config, tmp_path / "config.yml")
    again = load_config([tmp_path / "config.yml"])
    assert again == config
    assert again.notices == []
    assert again.training_digest() == config.training_digest()
    write_config(again, tmp_path / "again.yml")
    assert (tmp_path / "again.yml").read_text() == (tmp_path / "config.yml").read_text()
    json.dumps(config.to_dict(), allow_nan=False)


def test_a_derived_value_that_was_edited_is_refused(tmp_path: Path) -> None:
    write_config(load_tiny(), tmp_path / "config.yml")
    text = (tmp_path / "config.yml").read_text().replace("ffn_width: 256", "ffn_width: 128")
    (tmp_path / "config.yml").write_text(text)
    sentence = refuse(lambda: load_config([tmp_path / "config.yml"]))
    assert "ffn_width is 128, but the other keys give 256" in sentence
    assert "config.yml, line" in sentence


def test_a_configuration_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_tiny().seed = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("hidden_size", "64", "a whole number"),
        ("hidden_size", 64.0, "a whole number"),
        ("hidden_size", True, "a whole number"),
        ("weight_decay", "none", "a number"),
        ("weight_decay", True, "a number"),
        ("no_weight_tying", 1, "true or false"),
        ("no_weight_tying", "yes please", "true or false"),
        ("optimizer", "Adam", "block of keys"),
        ("attention_config", "global", "a list"),
        ("rotary_pct", 1.5, "at most 1"),
        ("seed", 0, "more than 0"),
        ("keep_last_n_checkpoints", 0, "at least 1"),
        ("keep_last_n_checkpoints", -1, "at least 1"),
        ("hidden_dropout", 1.0, "less than 1"),
        ("norm", "batchnorm", "one of 'layernorm'"),
        ("weight_decay", float("nan"), "finite number"),
        ("gradient_clipping", float("inf"), "finite number"),
    ],
)
def test_wrong_types_and_ranges(key: str, value: object, wanted: str) -> None:
    sentence = refuse_tiny(**{key: value})
    assert sentence.startswith(f"override {key}: {key} is ")
    assert wanted in sentence


def test_whole_numbers_serve_as_numbers() -> None:
    assert load_tiny(weight_decay=0).weight_decay == 0.0


def test_unknown_keys_suggest_the_nearest() -> None:
    assert "hiden_size is not a known key; did you mean hidden_size?" in refuse_tiny(hiden_size=1)
    for far in ("qqqq", "tp_size", "max_steps", "model_name", "epochs"):
        assert "did you mean" not in refuse_tiny(**{far: 1})
    assert "fp16.enable is not a known key; did you mean enabled?" in refuse_tiny(fp16={"enable": True})


def test_missing_keys_are_listed_together() -> None:
    sentence = refuse(lambda: load_config([CASES / "optimizer.yml"]))
    assert "num_layers, hidden_size, num_attention_heads and max_position_embeddings are missing" in sentence
    assert "optimizer.yml" in sentence


def test_no_file_at_all() -> None:
    assert "name at least one YAML file" in refuse(lambda: load_config([]))


def test_text_keys_keep_the_characters_typed(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("account: 0123456\nwandb_group: no\nwandb_team: null\n")
    config = load_config([*TINY, tmp_path / "a.yml"])
    assert (config.account, config.wandb_group, config.wandb_team) == ("0123456", "no", None)


def test_keys_without_effect_are_noted_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("bias_dropout_fusion: true\nlayernorm_fusion: false\n")
    notices = load_config([*TINY, tmp_path / "a.yml"]).notices
    assert any("a.yml, line 1: bias_dropout_fusion has no effect here" in sentence for sentence in notices)
    assert not any("layernorm_fusion" in sentence for sentence in notices)


def test_loading_needs_no_torch() -> None:
    code = (
        "import sys\n"
        "from neox_train.config.load import load_config\n"
        "from neox_train.config.deepspeed import deepspeed_json\n"
        "import neox_train.config.run, neox_train.config.support\n"
        f"deepspeed_json(load_config([{str(TINY[0])!r}, {str(TINY[1])!r}]))\n"
        "assert not {'torch', 'deepspeed', 'transformers', 'numpy', 'snakemake'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
