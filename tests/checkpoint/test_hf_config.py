from __future__ import annotations

import pytest
import torch
import transformers

from neox_train.checkpoint.hf_config import choose_family, hf_config
from neox_train.errors import NotBuiltError
from tests.model.architectures import make_architecture

LLAMA = {"norm": "rmsnorm", "activation": "swiglu", "rotary_pct": 1.0}


def test_values_of_a_parallel_model() -> None:
    architecture = make_architecture(residual="parallel", ffn_width=192, norm_epsilon=1e-6, rotary_pct=0.25)
    values = hf_config(architecture, dtype="bfloat16", end_of_document_id=5)
    assert values["architectures"] == ["GPTNeoXForCausalLM"]
    assert values["vocab_size"] == 90
    assert values["intermediate_size"] == 192
    assert values["use_parallel_residual"] is True
    assert values["layer_norm_eps"] == 1e-6
    assert (values["bos_token_id"], values["eos_token_id"]) == (5, 5)
    assert (values["rotary_pct"], values["rotary_emb_base"]) == (0.25, 10000)


def test_transformers_reads_what_was_written(tmp_path) -> None:
    transformers.AutoConfig.for_model(
        **hf_config(make_architecture(rotary_pct=0.25, rotary_emb_base=777), dtype="bfloat16", end_of_document_id=5)
    ).save_pretrained(tmp_path)
    read = transformers.AutoConfig.from_pretrained(tmp_path)
    assert read.dtype == torch.bfloat16
    assert read.rope_parameters["partial_rotary_factor"] == 0.25
    assert read.rope_parameters["rope_theta"] == 777
    assert read.eos_token_id == 5
    assert read.use_parallel_residual is False


def test_values_of_a_llama() -> None:
    values = hf_config(make_architecture(**LLAMA, num_kv_heads=2), dtype="float32", end_of_document_id=0)
    assert values["architectures"] == ["LlamaForCausalLM"]
    assert (values["num_key_value_heads"], values["head_dim"], values["hidden_act"]) == (2, 16, "silu")
    assert (values["attention_bias"], values["mlp_bias"]) == (True, True)


def test_the_tanh_gelu_is_not_exported_as_the_erf_gelu() -> None:
    acts = {
        activation: hf_config(make_architecture(activation=activation), dtype="float32", end_of_document_id=0)[
            "hidden_act"
        ]
        for activation in ("gelu", "gelu_tanh")
    }
    assert acts == {"gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh"}


@pytest.mark.parametrize(
    "changes, named",
    [
        ({"pos_emb": "learned"}, "pos_emb: learned"),
        ({"norm": "rmsnorm"}, "norm: rmsnorm"),
        ({"activation": "swiglu"}, "activation: swiglu"),
        ({"num_kv_heads": 2}, "num_kv_heads: 2"),
        (LLAMA | {"residual": "parallel"}, "gpt_j_residual: true"),
        (LLAMA | {"rotary_pct": 0.5}, "rotary_pct: 0.5"),
        ({"attention_layers": ("global", "local")}, "attention_config: local"),
        ({"qk_norm": True}, "use_qk_layernorm: true"),
        ({"pos_emb": "alibi"}, "pos_emb: alibi"),
        ({"sliding_window": 4}, "sliding_window_width: 4"),
        (LLAMA | {"sliding_window": 4}, "MistralForCausalLM cannot express use_bias_in_attn_linear: true"),
        ({"activation": "softsign"}, "activation: softsign"),
    ],
)
def test_what_no_class_expresses_is_refused_by_name(changes: dict, named: str) -> None:
    with pytest.raises(NotBuiltError) as refusal:
        choose_family(make_architecture(**changes))
    assert named in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_mistral_counts_the_token_itself() -> None:
    bare = LLAMA | {"attention_bias": False, "mlp_bias": False}
    values = hf_config(make_architecture(**bare, sliding_window=7), dtype="float32", end_of_document_id=0)
    assert (values["architectures"], values["sliding_window"]) == (["MistralForCausalLM"], 8)
    assert choose_family(make_architecture(**bare)) == "llama"
