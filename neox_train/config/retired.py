"""Names that GPT-NeoX once had, or documents without reading them, and what to write today."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retired:
    """A name without effect in GPT-NeoX today: ``sentence`` says what to write."""

    sentence: str
    today: str | None = None
    """Key that takes the value over unchanged; None where the value must be written anew."""


def _use(key: str) -> Retired:
    return Retired(f"is a retired name; write {key} instead")


RETIRED: dict[str, Retired] = {
    "gas": Retired(
        "is the retired name of gradient_accumulation_steps and is read as that", "gradient_accumulation_steps"
    ),
    "clip_grad": Retired("is overwritten by gradient_clipping in GPT-NeoX; it is read as that", "gradient_clipping"),
    "save_interval": _use("checkpoint_factor"),
    "train_data_path": _use("train_data_paths (a list)"),
    "valid_data_path": _use("valid_data_paths (a list)"),
    "test_data_path": _use("test_data_paths (a list)"),
    "label_data_paths": _use("train_label_data_paths, valid_label_data_paths and test_label_data_paths"),
    "zero_allow_untested_optimizer": Retired("is always on here; remove it"),
    "zero_allow_untested_optimizers": Retired("is always on here; remove it"),
    "lr_warmup_fraction": _use("warmup"),
    "batch_size_per_gpu": _use("train_micro_batch_size_per_gpu"),
    "tokenizer_file": _use("vocab_file"),
    "num_gpus_per_node": _use("global_num_gpus"),
    "attention_type": _use("attention_config"),
    "sparsity": _use("attention_config and sparsity_config"),
    "mlp_type": Retired("is a retired name; the activation alone (swiglu, gelu, ...) decides the MLP's kind today"),
    "use_flash_attention": Retired('is a retired name; write attention_config: [[["flash"], "all"]]'),
    "geglu": Retired("is a retired name; write activation: geglu"),
    "no_layer_norm_fusion": _use("layernorm_fusion"),
}
"""By name, hyphens folded to underscores."""
