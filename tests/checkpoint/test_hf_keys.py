from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import transformers

from neox_train.checkpoint.hf_config import hf_config
from neox_train.checkpoint.hf_keys import from_hf, list_key_rows, to_hf
from neox_train.config.parameters import list_parameters
from neox_train.model.gpt_neox import GPTNeoX
from tests.model.architectures import make_architecture, make_random_model, make_tokens

GPT_NEOX = [
    {"residual": residual, "tied_embeddings": tied, "rotary_pct": pct, "activation": activation}
    for residual, tied, pct, activation in itertools.product(
        ("serial", "parallel", "parallel_tied"), (True, False), (0.25, 1.0), ("gelu", "gelu_tanh")
    )
] + [
    {"attention_bias": False},
    {"mlp_bias": False, "residual": "parallel"},
    {"norm": "non_parametric_layernorm"},
    {"norm": "te_layernorm", "norm_epsilon": 1e-3},
    {"activation": "relu"},
    {"activation": "squared_relu"},
    {"activation": "silu"},
    {"activation": "mish"},
    {"rotary_emb_base": 500},
]
_BARE = {"norm": "rmsnorm", "attention_bias": False, "mlp_bias": False, "rotary_pct": 1.0}
LLAMA = [
    _BARE | {"activation": "swiglu"},
    _BARE | {"activation": "swiglu", "num_kv_heads": 2, "tied_embeddings": True},
    _BARE | {"activation": "swiglu", "num_kv_heads": 1, "attention_bias": True, "mlp_bias": True},
    _BARE | {"activation": "geglu", "norm": "te_rmsnorm", "norm_epsilon": 1e-8, "rotary_emb_base": 500000},
    _BARE | {"activation": "reglu"},
    _BARE | {"activation": "glu"},
    _BARE | {"activation": "bilinear"},
]


MISTRAL = [
    _BARE | {"activation": "swiglu", "sliding_window": 5, "num_kv_heads": 2},
    _BARE | {"activation": "swiglu", "sliding_window": 1, "tied_embeddings": True, "rotary_emb_base": 500},
    _BARE | {"activation": "geglu", "sliding_window": 31, "attention_layers": ("flash", "global")},
]


MUP = [
    {"mup_width": 2.0, "mup_embedding_multiplier": 3.0, "residual": "parallel"},
    _BARE | {"activation": "swiglu", "num_kv_heads": 2, "mup_width": 4.0, "mup_embedding_multiplier": 0.5},
    {"mup_width": 4.0, "mup_embedding_multiplier": 0.25, "tied_embeddings": True},
]


def _ids(changes: dict[str, Any]) -> str:
    return "-".join(str(value) for value in changes.values())


def _load(architecture: Any, tensors: dict[str, torch.Tensor]) -> transformers.PreTrainedModel:
    """The Hugging Face model of the architecture, loaded as ``from_pretrained`` does; every weight must be found."""
    values = hf_config(architecture, dtype="float32", end_of_document_id=0)
    configuration = transformers.AutoConfig.for_model(**values)
    model_class = getattr(transformers, values["architectures"][0])
    model, report = model_class.from_pretrained(
        None, config=configuration, state_dict=tensors, output_loading_info=True, dtype=torch.float32
    )
    assert not any(report.values()), report
    return model.eval()


@pytest.mark.parametrize("changes", GPT_NEOX + LLAMA + MISTRAL + MUP, ids=_ids)
def test_logits_equal_those_of_transformers(changes: dict[str, Any]) -> None:
    architecture = make_architecture(**changes)
    ours = make_random_model(architecture)
    weights = ours.state_dict()
    tensors: dict[str, torch.Tensor] = {}
    for row in list_key_rows(architecture):
        tensors |= to_hf(row, weights, architecture)
    theirs = _load(architecture, tensors)
    tokens = make_tokens(architecture, length=32)
    with torch.no_grad():
        mine, other = ours(tokens)[..., : architecture.vocab_size], theirs(tokens).logits
    assert other.shape[-1] == architecture.vocab_size
    assert mine.std() > 0.1
    assert (mine - other).abs().max() < 1e-5


@pytest.mark.parametrize("changes", GPT_NEOX + LLAMA + MISTRAL, ids=_ids)
def test_the_way_back_gives_the_same_bits(changes: dict[str, Any]) -> None:
    architecture = make_architecture(**changes)
    weights = make_random_model(architecture).state_dict()
    restored, names, counted = {}, [], 0
    for row in list_key_rows(architecture):
        tensors = to_hf(row, weights, architecture)
        names += list(tensors)
        counted += sum(tensor.numel() for tensor in tensors.values())
        assert row.count == sum(tensor.numel() for tensor in tensors.values())
        canonical = from_hf(row, tensors, architecture)
        if row.canonical is not None:
            restored[row.canonical] = canonical
    assert len(names) == len(set(names))
    assert list(restored) == [p.name for p in list_parameters(architecture)]
    for parameter in list_parameters(architecture):
        true = weights[parameter.name]
        assert torch.equal(
            restored[parameter.name], true[: architecture.vocab_size] if parameter.is_vocabulary else true
        )


def test_tensors_the_architecture_cannot_hold_are_refused() -> None:
    tied = make_architecture(residual="parallel_tied")
    row = next(r for r in list_key_rows(tied) if r.kind == "repeat")
    with pytest.raises(ValueError, match="differ"):
        from_hf(row, {row.hf[0]: torch.zeros(64), row.hf[1]: torch.ones(64)}, tied)
    bare = make_architecture(mlp_bias=False)
    row = next(r for r in list_key_rows(bare) if r.kind == "constant")
    with pytest.raises(ValueError, match="not 0 everywhere"):
        from_hf(row, {row.hf[0]: torch.ones(row.shape)}, bare)


def test_a_tensor_of_another_shape_is_refused() -> None:
    architecture = make_architecture()
    weights = GPTNeoX(make_architecture(ffn_width=72)).state_dict()
    row = next(r for r in list_key_rows(architecture) if r.canonical == "layers.0.mlp.linear2.weight")
    with pytest.raises(ValueError, match=r"layers.0.mlp.linear2.weight has shape \[64, 72\]"):
        to_hf(row, weights, architecture)
