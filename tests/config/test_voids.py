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

FP8 = {"te_fp8": True, "te_mha": True, "precision": "bfloat16"}
ONE_STAGE_3 = {"zero_optimization.stage": 3}
OWN = {"zero_optimization.stage": 1}

Change = dict[str, Any]

CASES: dict[str, tuple[Any, list[Change], Change | None]] = {
    "finetune": (True, [{}, {"load": "a", "save": "a"}], {"load": "a", "save": "b"}),
    "global_num_gpus": (1, [{"processes": 2}], {}),
    "sequence_parallel": (True, [{}], {"model_parallel_size": 2, "processes": 2}),
    "pipe_partition_method": ("uniform", [{}, {"pipe_parallel_size": 1}], {"pipe_parallel_size": 2, "processes": 2}),
    "bias_gelu_fusion": (True, [{"activation": "relu"}, {"te_layernorm_mlp": True, "precision": "bfloat16"}], {}),
    "layernorm_epsilon": (1e-3, [{"norm": "rmsnorm"}], {"norm": "non_parametric_layernorm"}),
    "rms_norm_epsilon": (1e-3, [{}], {"norm": "rmsnorm"}),
    "scalenorm_epsilon": (1e-3, [{}], {"norm": "scalenorm"}),
    "rotary_pct": (0.5, [{"pos_emb": "learned"}], {"pos_emb": "rotary"}),
    "rotary_emb_base": (500, [{"pos_emb": "alibi"}], {"pos_emb": "rotary"}),
    "init_method_std": (
        0.3,
        [{"init_method": "small_init", "output_layer_init_method": "wang_init"}],
        {"init_method": "small_init", "output_layer_init_method": "scaled_normal"},
    ),
    "base_shapes_file": ("none", [{}, {"use_mup": True, "mup_base_hidden_size": 16}], None),
    "mup_init_scale": (2.0, [{}], {"use_mup": True, "mup_base_hidden_size": 16}),
    "mup_embedding_mult": (2.0, [{}], {"use_mup": True, "mup_base_hidden_size": 16}),
    "sliding_window_width": (8, [{"attention_config": [[["local"], "all"]]}], {}),
    "sparsity_config": ({"block": 8}, [{}], {"attention_config": [[["local"], "all"]]}),
    "te_columnparallel": (
        True,
        [{"te_mha": True, "te_layernorm_mlp": True, "no_weight_tying": False, "precision": "bfloat16"}],
        {"te_mha": True, "te_layernorm_mlp": True, "no_weight_tying": True, "precision": "bfloat16"},
    ),
    "te_rowparallel": (
        True,
        [{"te_mha": True, "te_layernorm_mlp": True, "precision": "bfloat16"}],
        {"te_mha": True, "precision": "bfloat16"},
    ),
    "te_fp8_amax_history_len": (8, [{**FP8, "te_fp8_recipe": "current"}], FP8),
    "te_fp8_amax_compute_algo": ("max", [{**FP8, "te_fp8_recipe": "blockwise"}], FP8),
    "te_fp8_margin": (1, [{**FP8, "te_fp8_recipe": "mxfp8"}], {**FP8, "te_fp8_recipe": "delayed"}),
    "gradient_predivide_factor": (2.0, [{"prescale_gradients": True}], {}),
    "fp32_allreduce": (True, [{"precision": "fp32"}], {"precision": "bfloat16"}),
    "sparse_gradients": ("auto", [{"no_weight_tying": False}], {"no_weight_tying": True}),
    "min_lr": (1e-5, [{"lr_decay_style": "constant"}], {"lr_decay_style": "inverse_sqrt"}),
    "wsd_decay_fraction": (0.2, [{"lr_decay_style": "cosine"}], {"lr_decay_style": "wsd"}),
    "lr_decay_iters": (3, [{"lr_decay_style": "constant", "warmup": 0.0}], {"lr_decay_style": "constant"}),
    "lr_decay_fraction": (
        0.5,
        [{}, {"lr_decay_iters": None, "lr_decay_style": "inverse_sqrt", "warmup": 0.0}],
        {"lr_decay_iters": None, "lr_decay_style": "cosine"},
    ),
    "powersgd_rank": (2, [{}, {"gradient_compression": "bf16"}], {"gradient_compression": "powersgd"}),
    "powersgd_start_step": (20, [{}, {"gradient_compression": "local_update"}], {"gradient_compression": "auto"}),
    "local_update_steps": (9, [{}], {"gradient_compression": "local_update"}),
    "local_update_start_step": (9, [{"gradient_compression": "powersgd"}], {"gradient_compression": "local_update"}),
    "local_update_lr": (0.5, [{}], {"gradient_compression": "local_update"}),
    "local_update_momentum": (0.5, [{}], {"gradient_compression": "auto"}),
    "checkpoint_num_layers": (2, [{}], {"checkpoint_activations": True}),
    "partition_activations": (
        True,
        [
            {},
            {"checkpoint_activations": True},
            {"checkpoint_activations": True, "sequence_parallel": True, "model_parallel_size": 2, "processes": 2},
        ],
        {"checkpoint_activations": True, "model_parallel_size": 2, "processes": 2},
    ),
    "checkpoint_in_cpu": (True, [{}], {"checkpoint_activations": True}),
    "checkpoint_scale": ("log", [{"checkpoint_factor": None}], {"checkpoint_factor": 2}),
    "weighted_sampler_alpha": (
        0.5,
        [{"train_data_paths": ["a"]}],
        {"train_data_paths": ["a"], "weight_by_num_documents": True},
    ),
    "merge_file": ("merges.txt", [{"tokenizer_type": "HFTokenizer"}], {"tokenizer_type": "GPT2BPETokenizer"}),
    "valid_data_paths": (["a"], [{"eval_iters": 0}], {"eval_iters": 2}),
    "test_data_paths": (["a"], [{"eval_iters": 0}], {"eval_iters": 2}),
    "valid_data_weights": ([1.0], [{"eval_iters": 0, "valid_data_paths": ["a"]}], {"valid_data_paths": ["a"]}),
    "test_data_weights": ([1.0], [{"eval_iters": 0, "test_data_paths": ["a"]}], {"test_data_paths": ["a"]}),
    "valid_label_data_paths": (["b"], [{"eval_iters": 0, "valid_data_paths": ["a"]}], {"valid_data_paths": ["a"]}),
    "test_label_data_paths": (["b"], [{"eval_iters": 0, "test_data_paths": ["a"]}], {"test_data_paths": ["a"]}),
    "eval_interval": (7, [{"eval_iters": 0}], {"eval_iters": 2}),
    "steps_per_print": (7, [{"pipe_parallel_size": 2, "processes": 2}], {}),
    "fp16.fp16": (True, [{"fp16": {"enabled": True}}], None),
    "fp16.type": ("fp16", [{"fp16": {"enabled": True}}], None),
    "bf16.bf16": (True, [{"bf16": {"enabled": True}}], None),
    "bf16.type": ("bfloat16", [{"bf16": {"enabled": True}}], None),
    "bf16.loss_scale": (8.0, [{"bf16": {"enabled": True}}], None),
    "bf16.loss_scale_window": (8, [{"bf16": {"enabled": True}}], None),
    "bf16.initial_scale_power": (8, [{"bf16": {"enabled": True}}], None),
    "bf16.hysteresis": (8, [{"bf16": {"enabled": True}}], None),
    "bf16.min_loss_scale": (8.0, [{"bf16": {"enabled": True}}], None),
    "fp16.loss_scale": (8.0, [{"fp16": {"enabled": False}}], {"fp16": {"enabled": True}}),
    "fp16.auto_cast": (True, [{"fp16": {"enabled": False}}], {"fp16": {"enabled": True}}),
    "fp16.initial_scale_power": (
        12,
        [{"fp16": {"enabled": False}}, {"fp16": {"enabled": True, "loss_scale": 8.0}}],
        {"fp16": {"enabled": True}},
    ),
    "fp16.loss_scale_window": (
        12,
        [{"fp16": {"enabled": False}}, {"fp16": {"enabled": True, "loss_scale": 8.0}}],
        {"fp16": {"enabled": True}},
    ),
    "fp16.hysteresis": (
        4,
        [{"fp16": {"enabled": False}}, {"fp16": {"enabled": True, "loss_scale": 8.0}}, {"fp16": {"enabled": True}}],
        {"fp16": {"enabled": True}, "zero_optimization": {"stage": 1}},
    ),
    "fp16.consecutive_hysteresis": (
        True,
        [{"fp16": {"enabled": False}}, {"fp16": {"enabled": True, "loss_scale": 8.0}}, {"fp16": {"enabled": True}}],
        {"fp16": {"enabled": True}, "zero_optimization": {"stage": 1}},
    ),
    "fp16.min_loss_scale": (
        0.5,
        [{"fp16": {"enabled": False}}, {"fp16": {"enabled": True, "loss_scale": 8.0}}],
        {"fp16": {"enabled": True}},
    ),
    "data_types.grad_accum_dtype": (
        "fp32",
        [{"precision": "fp16"}, {"precision": "fp32"}],
        {"precision": "bfloat16", **OWN},
    ),
    "zero_optimization.overlap_comm": (True, [{"zero_optimization.stage": 0}], OWN),
    "zero_optimization.reduce_scatter": (False, [{"zero_optimization.stage": 0}], OWN),
    "zero_optimization.reduce_bucket_size": (1000, [{"zero_optimization.stage": 0}], OWN),
    "zero_optimization.contiguous_gradients": (False, [{"zero_optimization.stage": 0}], OWN),
    "zero_optimization.allgather_partitions": (False, [{"zero_optimization.stage": 0}], OWN),
    "zero_optimization.round_robin_gradients": (True, [{"zero_optimization.stage": 0}], OWN),
    "zero_optimization.sub_group_size": (1000, [OWN], ONE_STAGE_3),
    "zero_optimization.stage3_prefetch_bucket_size": (1000, [OWN], ONE_STAGE_3),
    "zero_optimization.stage3_param_persistence_threshold": (1000, [OWN], ONE_STAGE_3),
    "zero_optimization.stage3_model_persistence_threshold": (1000, [OWN], ONE_STAGE_3),
    "zero_optimization.stage3_max_live_parameters": (1000, [OWN], ONE_STAGE_3),
    "zero_optimization.stage3_max_reuse_distance": (1000, [OWN], ONE_STAGE_3),
    "zero_optimization.stage3_module_granularity_threshold": (1000, [OWN], ONE_STAGE_3),
    "zero_optimization.stage3_use_all_reduce_for_fetch_params": (True, [OWN], ONE_STAGE_3),
    "zero_optimization.stage3_allgather_sequential": (True, [OWN], ONE_STAGE_3),
    "zero_optimization.memory_efficient_linear": (True, [OWN], ONE_STAGE_3),
    "zero_optimization.log_trace_cache_warnings": (True, [OWN], ONE_STAGE_3),
    "zero_optimization.load_from_fp32_weights": (True, [OWN], None),
    "zero_optimization.pipeline_loading_checkpoint": (True, [OWN], None),
    "zero_optimization.stage3_gather_16bit_weights_on_model_save": (True, [ONE_STAGE_3], None),
    "zero_optimization.stage3_gather_fp16_weights_on_model_save": (True, [ONE_STAGE_3], None),
}
"""A value that is no default, changes beside which it has nothing to do, and changes beside which it acts."""

ALWAYS_ACT = {
    # Sizes, kinds and switches of the model.
    "num_layers",
    "hidden_size",
    "num_attention_heads",
    "num_kv_heads",
    "seq_length",
    "max_position_embeddings",
    "intermediate_size",
    "expansion_factor",
    "mlp_multiple_of",
    "make_vocab_size_divisible_by",
    "no_weight_tying",
    "gpt_j_residual",
    "activation",
    "use_bias_in_attn_linear",
    "use_bias_in_mlp",
    "hidden_dropout",
    "attention_dropout",
    "norm",
    "use_qk_layernorm",
    "pos_emb",
    "init_method",
    "output_layer_init_method",
    "use_mup",
    "attention_config",
    "document_attention",
    "eod_mask_loss",
    "te_layernorm_mlp",
    "te_mha",
    "te_fp8",
    "te_fp8_recipe",
    "te_fp8_mha",
    # Layout, batches, length, optimizer, number formats.
    "pipe_parallel_size",
    "model_parallel_size",
    "world_size",
    "distributed_backend",
    "seed",
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "train_iters",
    "optimizer",
    "weight_decay",
    "gradient_clipping",
    "use_bnb_optimizer",
    "prescale_gradients",
    "communication_data_type",
    "gradient_compression",
    "lr_decay_style",
    "warmup",
    "precision",
    "fp16",
    "bf16",
    "data_types",
    "zero_optimization",
    "checkpoint_activations",
    # Files, saving, validation, logs; a folder or file that is named later may make them act.
    "save",
    "load",
    "checkpoint_factor",
    "extra_save_iters",
    "keep_last_n_checkpoints",
    "data_path",
    "train_data_paths",
    "train_data_weights",
    "train_label_data_paths",
    "split",
    "vocab_file",
    "tokenizer_type",
    "eval_iters",
    "log_interval",
    "peak_theoretical_tflops",
    "deepspeed_extra_args",
}
REFUSED_ALONE = {
    "gpt_j_tied",
    "mup_base_hidden_size",
    "bnb_paged",
    "checkpoint_granularity",
    "blend_temperature",
    "weight_by_num_documents",
}
"""Keys that are refused, not passed over, without the key they need."""
BY_DEVICE = {"deterministic", "rope_fusion", "torch_compile", "flat_master_weights", "loss_chunk_tokens"}
"""Keys whose effect depends on the machine: training says so or refuses."""
BLOCK_KEYS_THAT_ACT = {
    "enabled",
    "stage",
    "allgather_bucket_size",
    "zero_hpz_partition_size",
    "zero_quantized_weights",
    "zero_quantized_gradients",
    "enable_sanity_checks",
    "ignore_unused_parameters",
    "override_module_apply",
    "use_multi_rank_bucket_allreduce",
    "offload_optimizer",
    "offload_param",
}


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
