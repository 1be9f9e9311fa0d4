"""The config.json of an export: which Hugging Face class an architecture is, and the values of its keys."""

from __future__ import annotations

from typing import Any, Literal

from neox_train.config.architecture import Architecture
from neox_train.errors import NotBuiltError

Family = Literal["gpt_neox", "llama", "mistral"]

_CLASSES: dict[Family, str] = {
    "gpt_neox": "GPTNeoXForCausalLM",
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
}

_NEOX_ACTIVATIONS = {
    "gelu": "gelu",
    # torch's own tanh form, the one this model computes; "gelu_new" spells the same function in separate operations.
    "gelu_tanh": "gelu_pytorch_tanh",
    "relu": "relu",
    "squared_relu": "relu2",
    "silu": "silu",
    "swish": "silu",
    "mish": "mish",
}
_LLAMA_GATES = {"swiglu": "silu", "geglu": "gelu", "reglu": "relu", "glu": "sigmoid", "bilinear": "linear"}
_LAYER_NORMS = ("layernorm", "te_layernorm", "non_parametric_layernorm")
_RMS_NORMS = ("rmsnorm", "te_rmsnorm")


def choose_family(architecture: Architecture) -> Family:
    """The Hugging Face class that computes exactly this architecture; NotBuiltError names what none can express."""
    gpt_neox = list(_gpt_neox_objections(architecture))
    if not gpt_neox:
        return "gpt_neox"
    llama = list(_llama_objections(architecture))
    if not llama:
        return "llama"
    mistral = list(_mistral_objections(architecture))
    if not mistral:
        return "mistral"
    raise NotBuiltError(
        "this architecture has no Hugging Face class: GPTNeoXForCausalLM cannot express "
        f"{', '.join(gpt_neox)}; LlamaForCausalLM cannot express {', '.join(llama)}; "
        f"MistralForCausalLM cannot express {', '.join(mistral)}; "
        "train with settings that one of them has, or read the checkpoint in Python, as docs/checkpoints.md shows"
    )


def hf_config(architecture: Architecture, *, dtype: str, end_of_document_id: int) -> dict[str, Any]:
    """Contents of config.json; the vocabulary is the tokenizer's own, without padding.

    Rotary settings are written twice: ``rope_parameters`` for transformers 5, the older keys for 4.48 and later.
    """
    a = architecture
    family = choose_family(a)
    shared: dict[str, Any] = {
        "architectures": [_CLASSES[family]],
        "model_type": family,
        "vocab_size": a.vocab_size,
        "hidden_size": a.hidden_size,
        "num_hidden_layers": a.num_layers,
        "num_attention_heads": a.num_attention_heads,
        "intermediate_size": a.ffn_width,
        "max_position_embeddings": a.max_position_embeddings,
        "initializer_range": a.init_method_std,
        "tie_word_embeddings": a.tied_embeddings,
        "attention_bias": a.attention_bias,
        "attention_dropout": a.attention_dropout,
        "bos_token_id": end_of_document_id,
        "eos_token_id": end_of_document_id,
        "use_cache": True,
        "torch_dtype": dtype,
    }
    rope = {"rope_type": "default", "rope_theta": float(a.rotary_emb_base)}
    if family == "llama":
        return shared | {
            "hidden_act": _LLAMA_GATES[a.activation],
            "num_key_value_heads": a.num_kv_heads,
            "head_dim": a.head_dim,
            "rms_norm_eps": a.norm_epsilon,
            "mlp_bias": a.mlp_bias,
            "rope_theta": float(a.rotary_emb_base),
            "rope_parameters": rope,
        }
    if family == "mistral":
        window = None if a.sliding_window is None else a.sliding_window + 1
        return shared | {
            "hidden_act": _LLAMA_GATES[a.activation],
            "num_key_value_heads": a.num_kv_heads,
            "head_dim": a.head_dim,
            "rms_norm_eps": a.norm_epsilon,
            # Mistral counts the token itself.
            "sliding_window": window,
            "rope_theta": float(a.rotary_emb_base),
            "rope_parameters": rope,
        }
    return shared | {
        "hidden_act": _NEOX_ACTIVATIONS[a.activation],
        "hidden_dropout": a.hidden_dropout,
        "layer_norm_eps": a.norm_epsilon,
        "use_parallel_residual": a.residual != "serial",
        "rotary_pct": a.rotary_pct,
        "rotary_emb_base": a.rotary_emb_base,
        "rope_parameters": rope | {"partial_rotary_factor": a.rotary_pct},
    }


def _gpt_neox_objections(a: Architecture) -> list[str]:
    objections = _shared_objections(a) + _window_objections(a)
    if a.activation not in _NEOX_ACTIVATIONS:
        objections.append(f"activation: {a.activation}")
    if a.norm not in _LAYER_NORMS:
        objections.append(f"norm: {a.norm}")
    if a.num_kv_heads != a.num_attention_heads:
        objections.append(f"num_kv_heads: {a.num_kv_heads}")
    return objections


def _llama_objections(a: Architecture) -> list[str]:
    return _rms_objections(a) + _window_objections(a)


def _mistral_objections(a: Architecture) -> list[str]:
    biases = {"use_bias_in_attn_linear": a.attention_bias, "use_bias_in_mlp": a.mlp_bias}
    return _rms_objections(a) + [f"{key}: true" for key, is_set in biases.items() if is_set]


def _rms_objections(a: Architecture) -> list[str]:
    objections = _shared_objections(a)
    if a.activation not in _LLAMA_GATES:
        objections.append(f"activation: {a.activation}")
    if a.norm not in _RMS_NORMS:
        objections.append(f"norm: {a.norm}")
    if a.residual != "serial":
        objections.append("gpt_j_residual: true")
    if a.pos_emb == "rotary" and a.rotary_pct != 1.0:
        objections.append(f"rotary_pct: {a.rotary_pct:g}")
    return objections


def _window_objections(a: Architecture) -> list[str]:
    return [] if a.sliding_window is None else [f"sliding_window_width: {a.sliding_window}"]


def _shared_objections(a: Architecture) -> list[str]:
    objections = [] if a.pos_emb == "rotary" else [f"pos_emb: {a.pos_emb}"]
    if a.qk_norm:
        objections.append("use_qk_layernorm: true")
    if a.tied_embeddings and a.mup_embedding_multiplier != a.output_multiplier:
        objections.append("use_mup with tied embeddings")
    kinds = sorted(set(a.attention_layers) - {"global", "flash"})
    return objections + [f"attention_config: {kind}" for kind in kinds]
