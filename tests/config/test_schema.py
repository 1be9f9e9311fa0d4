from __future__ import annotations

from pathlib import Path

import pytest

from neox_train.config.digest import select_training_relevant
from neox_train.config.keys import is_inactive, read_status
from neox_train.config.retired import RETIRED
from neox_train.config.schema import SECTIONS, NeoxConfig, NeoxKeys
from neox_train.config.show import render_config
from tests.config.files import load_tiny

NEW_KEYS = {
    "blend_temperature",
    "bnb_paged",
    "checkpoint_granularity",
    "deterministic",
    "document_attention",
    "flat_master_weights",
    "gradient_compression",
    "local_update_lr",
    "local_update_momentum",
    "local_update_steps",
    "loss_chunk_tokens",
    "mup_base_hidden_size",
    "local_update_start_step",
    "powersgd_rank",
    "powersgd_start_step",
    "te_fp8",
    "te_fp8_first_last_layers_bf16",
    "te_fp8_recipe",
    "torch_compile",
    "wsd_decay_fraction",
}
READ_AS_ANOTHER_KEY = {"clip_grad"}
DERIVED_ONLY = {"lr", "optimizer_type", "zero_stage", "padded_vocab_size"}


def test_every_key_of_gpt_neox_is_known(cases: Path) -> None:
    upstream = set((cases / "gpt-neox-keys.txt").read_text().split())
    assert len(upstream) == 318
    assert upstream - READ_AS_ANOTHER_KEY - DERIVED_ONLY | NEW_KEYS == set(NeoxKeys.model_fields)
    assert RETIRED.keys() >= READ_AS_ANOTHER_KEY
    assert NeoxConfig.model_fields.keys() >= DERIVED_ONLY


@pytest.mark.parametrize("name", NeoxKeys.model_fields)
def test_every_key_has_a_meaning_a_status_and_an_inactive_default(name: str) -> None:
    field = NeoxKeys.model_fields[name]
    assert field.description and field.description.endswith(".")
    status = read_status(field)
    assert status in ("implemented", "harmless", "refused")
    if status == "refused":
        assert is_inactive(field, field.get_default(call_default_factory=True))


def test_one_and_true_are_told_apart() -> None:
    assert is_inactive(NeoxKeys.model_fields["moe_num_experts"], 1)
    assert not is_inactive(NeoxKeys.model_fields["te_mha"], 0)


def test_every_key_is_shown_in_one_group() -> None:
    shown = [name for _, section in SECTIONS for name in section.model_fields]
    assert sorted(shown) == sorted(NeoxKeys.model_fields)
    text = render_config(load_tiny())
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", " ", "-"))]
    assert sorted(line.split(":")[0] for line in lines) == sorted(NeoxConfig.model_fields)


def test_defaults_do_not_share_state() -> None:
    first, second = load_tiny(), load_tiny()
    first.sparsity_config["x"] = 1
    assert second.sparsity_config == {}


@pytest.mark.parametrize(
    "change",
    [
        {"train_iters": 40, "lr_decay_iters": None},
        {"log_interval": 7},
        {"eval_interval": 7, "eval_iters": 3},
        {"save": "elsewhere", "checkpoint_factor": 5, "keep_last_n_checkpoints": 2},
        {"data_path": "elsewhere", "hostfile": "x", "launcher": "slurm"},
        {"rope_fusion": True},
        {"processes": 2, "train_batch_size": 4, "train_micro_batch_size_per_gpu": 2},
        {"train_micro_batch_size_per_gpu": 2, "train_batch_size": 4},
        {"attention_config": [[["global"], "all"]]},
        {"intermediate_size": 256},
    ],
)
def test_what_leaves_the_training_the_same(change: dict[str, object]) -> None:
    assert load_tiny(**change).training_digest() == load_tiny().training_digest()


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 5},
        {"optimizer.params.lr": 0.002},
        {"weight_decay": 0.2},
        {"num_layers": 3},
        {"gradient_clipping": 0.5},
        {"train_micro_batch_size_per_gpu": 8},
        {"precision": "bfloat16"},
        {"lr_decay_iters": 10},
        {"lr_decay_iters": None, "lr_decay_fraction": 0.5},
        {"warmup": 0.2},
        {"activation": "silu"},
        {"zero_optimization": {"stage": 1}},
        {"deterministic": True},
    ],
)
def test_what_makes_another_training(change: dict[str, object]) -> None:
    assert load_tiny(**change).training_digest() != load_tiny().training_digest()


def test_the_digest_knows_the_vocabulary_and_holds_no_path() -> None:
    relevant = select_training_relevant(load_tiny(save="x", data_path="y").with_vocab_size(300))
    assert relevant["vocab_size"] == 300
    assert "x" not in relevant.values() and "y" not in relevant.values()
