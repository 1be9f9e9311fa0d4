from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from neox_train.config.cluster import Cluster
from neox_train.config.load import load_config
from neox_train.config.support import list_unsupported, require_trainable
from neox_train.errors import NotBuiltError
from tests.config.files import TINY, load_tiny, refuse


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"precision": "bfloat16", "zero_optimization": {"stage": 2}},
        {"precision": "bfloat16", "zero_optimization": {"stage": 3}},
        {"precision": "fp16", "use_bnb_optimizer": True},
        {"activation": "swiglu", "norm": "rmsnorm", "num_kv_heads": 2, "pos_emb": "none"},
        {"gpt_j_residual": True, "no_weight_tying": False, "pipe_parallel_size": 1},
        {"pos_emb": "alibi", "num_kv_heads": 2, "sliding_window_width": 8},
        {"pos_emb": "sinusoidal", "use_qk_layernorm": True},
        {"attention_config": [[["local"], "all"]], "sparsity_config": {"block": 16, "num_local_blocks": 32}},
        {"attention_config": [[["flash"], "all"]], "checkpoint_activations": True},
        {"optimizer": {"type": "SGD", "params": {"lr": 1.0, "momentum": 0.9}}},
        {"use_wandb": False, "te_fp8_margin": 1},
        {"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "none"}, "offload_param": {"device": None}}},
        {"zero_optimization": {"stage": 1, "cpu_offload": False, "zenflow": None, "mics_shard_size": -1}},
        {
            "soft_prompt_tuning": {"enabled": False, "n_tokens": 10},
            "scheduler": {},
            "flops_profiler": {"enabled": False},
        },
        {"eval_tasks": [], "s3_path": "", "exit_interval": 0, "pos_train_data_paths": []},
        {"model_parallel_size": 2, "sequence_parallel": True, "processes": 2},
        {"pipe_parallel_size": 2, "processes": 2, "document_attention": True},
        {
            "te_mha": True,
            "te_layernorm_mlp": True,
            "te_columnparallel": True,
            "norm": "te_rmsnorm",
            "precision": "bfloat16",
        },
        {"te_mha": True, "te_fp8": True, "precision": "bfloat16"},
        {"te_mha": True, "te_layernorm_mlp": True, "precision": "bfloat16", "model_parallel_size": 2, "processes": 2},
        {
            "te_columnparallel": True,
            "precision": "fp16",
            "model_parallel_size": 2,
            "sequence_parallel": True,
            "processes": 2,
        },
        {
            "te_mha": True,
            "te_fp8_mha": True,
            "precision": "bfloat16",
            "hidden_size": 256,
            "num_attention_heads": 2,
            "seq_length": 128,
            "max_position_embeddings": 128,
        },
    ],
)
def test_what_trains(change: dict[str, object]) -> None:
    assert list_unsupported(load_tiny(**change)) == []
    require_trainable(load_tiny(**change))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"no_load_optim": True, "te_mha": True, "zero_optimization": {"stage": 3}}, "te_mha with zero"),
        ({"te_mha": True, "pipe_parallel_size": 2, "processes": 2}, "te_mha with pipe_parallel_size"),
        ({"attention_config": ["global", "mamba"]}, "attention_config: mamba"),
        ({"pos_emb": "rpe"}, "pos_emb: 'rpe'"),
        (
            {"use_qk_layernorm": True, "model_parallel_size": 2, "processes": 2},
            "use_qk_layernorm with model_parallel_size above 1",
        ),
        ({"use_qk_layernorm": True, "num_kv_heads": 2}, "use_qk_layernorm with num_kv_heads"),
        ({"te_mha": True, "sliding_window_width": 4}, "sliding_window_width with te_mha"),
        (
            {"attention_config": [[["local"], "all"]], "sparsity_config": {"horizontal_global_attention": 1}},
            "sparsity_config.horizontal_global_attention",
        ),
        ({"moe_num_experts": 8}, "moe_num_experts: 8"),
        ({"optimizer": {"type": "SM3", "params": {"lr": 0.1}}}, "optimizer.type: 'sm3'"),
        (
            {"optimizer": {"type": "Adam", "params": {"lr": 0.1, "amsgrad": True}}},
            "optimizer.params.amsgrad: true of adam",
        ),
        ({"optimizer": {"type": "SGD", "params": {"lr": 0.1}}, "use_bnb_optimizer": True}, "use_bnb_optimizer with"),
        ({"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "nvme"}}}, "offload_optimizer.device nvme"),
        ({"checkpoint_granularity": "selective"}, "checkpoint_granularity: selective without checkpoint_activations"),
        (
            {"use_mup": True, "mup_base_hidden_size": 16, "optimizer": {"type": "Lion", "params": {"lr": 0.1}}},
            "use_mup with",
        ),
        ({"optimizer": {"type": "Adam", "params": {"lr": 0.1, "adam_w_mode": False}}}, "adam_w_mode: false"),
        (
            {"optimizer": {"type": "SGD", "params": {"lr": 0.1, "torch_adam": True}}},
            "optimizer.params.torch_adam: true of",
        ),
        ({"bnb_paged": True}, "bnb_paged: true without use_bnb_optimizer"),
        (
            {"optimizer": {"type": "Muon", "params": {"lr": 0.1}}, "model_parallel_size": 2, "processes": 2},
            "Muon with model_parallel",
        ),
        ({"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}, "offload_param without"),
        ({"no_load_optim": True}, "no_load_optim: true"),
        (
            {"pos_train_label_data_paths": ["a"]},
            "pos_train_label_data_paths: ['a'] (remove it; training by preference is not built",
        ),
        ({"use_wandb": True}, "use_wandb: true"),
        ({"te_mha": True, "precision": "fp32"}, "te_mha with precision fp32"),
        ({"norm": "te_rmsnorm"}, "norm te_rmsnorm with precision fp32"),
        ({"zero_optimization": {"stage": 1, "zenflow": {"topk_ratio": 0.1}}}, "zero_optimization.zenflow"),
        ({"zero_optimization": {"stage": 3, "mics_shard_size": 2}}, "zero_optimization.mics_shard_size: 2 (MiCS"),
    ],
)
def test_what_does_not_train_is_named(change: dict[str, object], named: str) -> None:
    config = load_tiny(**change)
    assert any(named in phrase for phrase in list_unsupported(config))
    with pytest.raises(NotBuiltError, match="not built"):
        require_trainable(config)
    assert named in refuse(lambda: require_trainable(config))


def test_all_that_is_missing_stands_in_one_sentence() -> None:
    sentence = refuse(lambda: require_trainable(load_tiny(use_wandb=True, moe_num_experts=2)))
    assert "use_wandb" in sentence and "moe_num_experts" in sentence


def test_file_and_line_of_what_is_missing_are_told(tmp_path: Path) -> None:
    file = tmp_path / "more.yml"
    file.write_text("no_load_rng: true\nmoe_num_experts: 8\n")
    config = load_config([*TINY, file])
    sentence = refuse(lambda: require_trainable(config.with_vocab_size(300)))
    assert f"{file}, line 1: no_load_rng: true" in sentence and f"{file}, line 2: moe_num_experts: 8" in sentence
    inner = load_tiny(**{"zero_optimization": {"stage": 0, "offload_optimizer": {"device": "cpu"}}})
    assert "override zero_optimization: zero_optimization.offload" in refuse(lambda: require_trainable(inner))


def test_a_key_of_speed_that_cannot_hold_is_named_with_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "more.yml"
    file.write_text("loss_chunk_tokens: 512\nzero_optimization: {stage: 3}\n")
    config = load_config([*TINY, file]).with_vocab_size(300)
    for cluster in (None, Cluster()):
        sentence = refuse(lambda cluster=cluster: require_trainable(config, cluster))  # type: ignore[misc]
        assert sentence.startswith(f"{file}, line 1: loss_chunk_tokens is not built with zero_optimization.stage 3")


def test_training_needs_a_length() -> None:
    assert "train_iters is not set" in refuse(lambda: require_trainable(load_tiny(train_iters=None)))


def test_with_a_cluster_the_device_is_asked_too() -> None:
    assert "bfloat16" in refuse(lambda: require_trainable(load_tiny(precision="fp16"), Cluster()))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (
            {"model_parallel_size": 2, "partition_activations": True, "checkpoint_in_cpu": True},
            "checkpoint_in_cpu: true is not built with partition_activations",
        ),
        (
            {"zero_optimization": {"stage": 3}, "checkpoint_granularity": "selective"},
            "selective is not built with zero_optimization.stage 3",
        ),
        ({"zero_optimization": {"stage": 3}, "torch_compile": True}, "torch_compile is not built with"),
    ],
)
def test_what_holds_together_on_no_device_is_refused_without_knowing_one(changes: dict[str, Any], named: str) -> None:
    config = load_tiny(checkpoint_activations=True, processes=2, **changes)
    assert named in refuse(lambda: require_trainable(config))


def test_what_one_device_can_do_is_not_refused_without_knowing_one() -> None:
    # Recomputes beside eager layers, as on CPUs; compiled ones do it by themselves.
    keys = {"checkpoint_activations": True, "checkpoint_granularity": "selective", "checkpoint_num_layers": 2}
    require_trainable(load_tiny(**keys))


@pytest.mark.parametrize("activation", ["softsign", "mish", "glu", "bilinear", "squared_relu"])
def test_an_activation_that_transformer_engine_has_not_is_refused_before_a_rank_starts(activation: str) -> None:
    keys = {"te_layernorm_mlp": True, "precision": "bfloat16", "intermediate_size": 192}
    sentence = refuse(lambda: require_trainable(load_tiny(**keys, activation=activation)))
    assert f"activation {activation} with te_layernorm_mlp (set it to one of gelu, relu, silu, swish" in sentence
    for built in ("gelu", "relu", "swiglu", "geglu", "reglu", "silu"):
        require_trainable(load_tiny(**keys, activation=built))
