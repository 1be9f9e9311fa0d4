"""What GPT-NeoX ships besides its sizes: each file's keys load over a shipped size, or are refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from neox_train.config.load import load_config
from neox_train.config.support import list_unsupported, require_trainable
from tests.config.files import TINY, load_tiny, refuse

LLAMA = {
    "pos_emb": "rotary",
    "rotary_pct": 1.0,
    "no_weight_tying": True,
    "gpt_j_residual": False,
    "norm": "rmsnorm",
    "rms_norm_epsilon": 1e-6,
    "use_bias_in_norms": False,
    "use_bias_in_attn_linear": False,
    "use_bias_in_mlp": False,
    "activation": "swiglu",
    "mlp_multiple_of": 256,
    "attention_config": [[["flash"], "all"]],
}
SETUPS = {
    "slurm": {"launcher": "slurm", "deepspeed_slurm": True, "comment": "neox", "bias_gelu_fusion": True},
    "cpu_mock": {"global_num_gpus": 1},
    "profiler": {
        "profile": True,
        "profile_step_start": 10,
        "profile_step_stop": 12,
        "memory_profiling": True,
        "memory_profiling_path": "tensorboard",
        "tensorboard_dir": "tensorboard",
    },
    "generation": {
        "text_gen_type": "unconditional",
        "maximum_tokens": 102,
        "temperature": 1.0,
        "top_p": 0.0,
        "top_k": 0,
        "recompute": False,
        "num_samples": 10,
        "sample_input_file": "sample_input.txt",
        "sample_output_file": "sample_output.txt",
    },
    "sparse": {
        "attention_config": [[["local", "global"], "all"]],
        "sparsity_config": {"block": 16, "num_local_blocks": 32},
    },
    "training test": {
        "pipe_parallel_size": 0,
        "num_layers": 2,
        "hidden_size": 192,
        "num_attention_heads": 6,
        "seq_length": 1024,
        "max_position_embeddings": 1024,
        "zero_optimization": {"stage": 0},
        "split": "949,50,1",
        "weight_decay": 0,
        "data_path": "data/enwik8/enwik8_text_document",
        "save": "test_checkpoint",
        "load": "test_checkpoint",
    },
    "gmlp": {"attention_config": [[["gmlp"], "all"]], "gmlp_attn_dim": 64},
    "mixture of experts": {"moe_num_experts": 64, "moe_expert_interval": 2, "moe_top_k": 1},
    "mamba": {"attention_config": [[["mamba"], "all"]], "mamba_selective_scan_fusion": True},
    "rwkv": {"attention_config": [[["rwkv"], "all"]]},
    "preference": {"train_impl": "dpo", "dataset_impl": "pairwise", "dpo_beta": 0.1},
    "labels": {"train_data_paths": ["text_document"], "train_label_data_paths": ["labels_document"]},
    "local paths": {"data_path": "data/text_document", "save": "checkpoints", "log_dir": "logs"},
    "sm3 without numbers": {"optimizer": {"type": "sm3", "params": {}}, "use_wandb": False, "include": "localhost:1"},
}
REFUSED = {
    "profiler": ["profile"],
    "sm3 without numbers": ["optimizer.type: 'sm3'"],
    "gmlp": ["attention_config: gmlp"],
    "mixture of experts": ["moe_num_experts: 64"],
    "mamba": ["attention_config: mamba"],
    "rwkv": ["attention_config: rwkv"],
    "preference": ["train_impl: 'dpo'"],
}


@pytest.mark.parametrize("name", SETUPS)
def test_set_up_files_load(repository: Path, name: str) -> None:
    config = load_config([repository / "configs" / "125M.yml"], overrides=SETUPS[name], world_size=1)
    problems = list_unsupported(config)
    assert [wanted for wanted in REFUSED.get(name, []) if not any(wanted in problem for problem in problems)] == []
    assert bool(problems) == (name in REFUSED), problems


@pytest.mark.parametrize(
    ("changes", "width"),
    [
        ({"intermediate_size": 32768, "hidden_size": 4096, "num_layers": 32, "num_attention_heads": 32}, 11008),
        ({"intermediate_size": 3 * 14336, "hidden_size": 4096, "num_attention_heads": 32, "num_kv_heads": 8}, 14336),
        ({"intermediate_size": 3 * 1000, "mlp_multiple_of": 1}, 1000),
    ],
)
def test_llama_style_trains_at_the_width_of_its_convention(
    repository: Path, changes: dict[str, object], width: int
) -> None:
    config = load_config([repository / "configs" / "125M.yml"], overrides=LLAMA | changes, world_size=1)
    assert list_unsupported(config) == []
    assert config.ffn_width == width


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        # mamba-1.4B, whose heads do not divide its width, and gmlp_small, whose epsilon is no number of YAML.
        (
            {"attention_config": [[["mamba"], 48]], "num_layers": 48, "hidden_size": 2048, "num_attention_heads": 12},
            "mamba",
        ),
        ({"attention_config": [[["gmlp"], "all"]], "layernorm_epsilon": "1.0e_8", "unheard_of": 1}, "gmlp"),
        ({"attention_config": [[["rwkv"], "all"]], "bf16": {"enabled": True, "bf16": True, "loss_scale": 0}}, "rwkv"),
    ],
)
def test_of_another_family_s_file_the_family_is_named_and_nothing_else(
    keys: dict[str, object], kind: str, tmp_path: Path
) -> None:
    sentence = refuse(lambda: require_trainable(load_tiny(**keys)))
    assert f"attention_config: {kind}" in sentence or f"attention_config names {kind}, which is not built" in sentence
    assert "heads" not in sentence and "unheard_of" not in sentence


def test_a_file_for_the_autotuner_is_refused_for_the_autotuner(tmp_path: Path) -> None:
    file = tmp_path / "small_tune.yml"
    file.write_text("autotuning: {enabled: true, arg_mappings: {}}\nzero_optimization: {stage: [0, 1, 2, 3]}\n")
    first, second = refuse(lambda: load_config([*TINY, file])).split(" | ")
    assert first.startswith(f"{file}, line 1: autotuning is not built (")
    assert second.startswith(f"{file}, line 2: zero_optimization.stage is [0, 1, 2, 3]")


def test_everything_wrong_with_a_file_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "more.yml"
    file.write_text(
        "hiden_size: 64\nwall_clock_breakdown: many\nnum_experts: 8\noptimizer: {type: Adam, params: {lr: fast}}\n"
    )
    sentences = refuse(lambda: load_config([*TINY[:1], file])).split(" | ")
    assert len(sentences) == 4
    assert f"{file}, line 1: hiden_size is not a known key; did you mean hidden_size?" in sentences
    assert any(sentence.startswith(f"{file}, line 2: wall_clock_breakdown is 'many'") for sentence in sentences)
    assert any(sentence.startswith(f"{file}, line 4: optimizer.params.lr is 'fast'") for sentence in sentences)
