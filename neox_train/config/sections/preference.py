"""Keys of training by preference and of online data."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

from neox_train.config.keys import harmless, refused

_PREFERENCE = "remove it; training by preference is not built"
_UNREAD = "Read only with the train_impl of that name."


class PreferenceKeys(BaseModel):
    """DPO, reward models, KTO, REINFORCE."""

    train_impl: Literal["normal", "dpo", "rm", "kto", "reinforce"] = refused(
        "normal", "Kind of training.", remedy=_PREFERENCE
    )
    dataset_impl: Literal["gpt2", "pairwise", "online"] = refused("gpt2", "Kind of dataset.", remedy=_PREFERENCE)
    dpo_fp32: bool = harmless(True, _UNREAD)
    dpo_reference_free: bool = harmless(False, _UNREAD)
    dpo_beta: float = harmless(0.1, _UNREAD)
    kto_fp32: bool = harmless(True, _UNREAD)
    kto_desirable_weight: float = harmless(1.0, _UNREAD)
    kto_undesirable_weight: float = harmless(1.0, _UNREAD)
    kto_beta: float = harmless(0.1, _UNREAD)
    z_loss: float = refused(0.0, "Weight of the reward model's penalty.", remedy=_PREFERENCE)
    fp32_reinforce: bool = harmless(True, _UNREAD)
    kl_impl: Literal["mse", "abs", "kl", "full"] = harmless("mse", _UNREAD)
    kl_div_beta: float = harmless(0.1, _UNREAD)
    reinforce_leave_one_out: bool = harmless(False, _UNREAD)
    precompute_model_name: str | None = refused(
        None, "Name under which log-probabilities are computed beforehand.", remedy=_PREFERENCE
    )
    serve_model_weights: bool = refused(
        False, "Send weights to a generating server.", remedy="remove it; weights leave a run by convert"
    )
    weight_server_port: int | list[int] = harmless(6000, "Read only with serve_model_weights.")
    online_dataserver_ips: str | list[str] = harmless("localhost", "Read only with dataset_impl online.")
    online_dataserver_ports: int | list[int] = harmless(10000, "Read only with dataset_impl online.")


class GenerationKeys(BaseModel):
    """Text generation after training: the evaluate stage samples by the pipeline file's `evaluation`."""

    text_gen_type: str | None = harmless(None, "Mode of GPT-NeoX's generate.py.")
    temperature: float = harmless(0.0, "Read only by GPT-NeoX's generate.py.")
    top_p: float = harmless(0.0, "Read only by GPT-NeoX's generate.py.")
    top_k: int = harmless(0, "Read only by GPT-NeoX's generate.py.")
    maximum_tokens: int = harmless(64, "Read only by GPT-NeoX's generate.py.")
    prompt_end: str = harmless("\n", "Read only by GPT-NeoX's generate.py.")
    num_samples: int = harmless(1, "Read only by GPT-NeoX's generate.py.")
    recompute: bool = harmless(False, "Read only by GPT-NeoX's generate.py.")
    sample_input_file: str | None = harmless(None, "Read only by GPT-NeoX's generate.py.")
    sample_output_file: str | None = harmless("samples.txt", "Read only by GPT-NeoX's generate.py.")
    return_logits: bool = harmless(False, "Without effect in GPT-NeoX too.")


class LegacyKeys(BaseModel):
    """Keys of programs GPT-NeoX grew out of."""

    adlr_autoresume: bool = harmless(False, "Without effect in GPT-NeoX too; every run resumes by itself.")
    adlr_autoresume_interval: int = harmless(1000, "Without effect in GPT-NeoX too.")
    onnx_safe: bool = harmless(False, "Export to ONNX; the model is exported to Hugging Face.")
    curriculum_learning: dict[str, Any] | None = refused(
        None, "Sequence-length curriculum.", remedy="remove it; seq_length is the same in every step"
    )
    curriculum_seqlen: int = harmless(0, "State of curriculum_learning.")
