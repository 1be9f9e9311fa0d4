from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
import torch.nn.functional as F

from neox_train.config.parameters import count_non_embedding_parameters, count_parameters, list_parameters
from neox_train.errors import NotBuiltError
from neox_train.model.gpt_neox import GPTNeoX
from tests.model.architectures import make_architecture, make_random_model, make_tokens

VARIANTS = [
    {"residual": residual, "norm": norm, "tied_embeddings": tied, "attention_bias": bias, "mlp_bias": not bias}
    for residual, norm, tied, bias in itertools.product(
        ("serial", "parallel", "parallel_tied"),
        ("layernorm", "rmsnorm", "non_parametric_layernorm"),
        (True, False),
        (True, False),
    )
] + [
    {"activation": "swiglu"},
    {"activation": "geglu", "mlp_bias": False},
    {"pos_emb": "learned"},
    {"pos_emb": "none"},
    {"num_kv_heads": 2},
    {"num_kv_heads": 1, "activation": "reglu"},
    {"norm": "te_layernorm"},
    {"norm": "te_rmsnorm"},
    {"pos_emb": "sinusoidal"},
    {"pos_emb": "alibi", "num_kv_heads": 2},
    {"qk_norm": True},
    {"qk_norm": True, "norm": "rmsnorm", "attention_bias": False},
    {"qk_norm": True, "norm": "non_parametric_layernorm"},
    {"sliding_window": 3, "attention_layers": ("global", "local")},
]


@pytest.mark.parametrize("changes", VARIANTS, ids=lambda c: "-".join(str(v) for v in c.values()))
def test_registers_the_canonical_table(changes: dict) -> None:
    architecture = make_architecture(**changes)
    with torch.device("meta"):
        model = GPTNeoX(architecture)
    registered = [(name, tuple(p.shape)) for name, p in model.named_parameters()]
    assert registered == [(p.name, p.shape) for p in list_parameters(architecture)]
    assert not list(model.named_buffers())


REFERENCE_COUNTS = [
    # layers, hidden, heads, padded vocabulary, all, without embeddings
    (6, 512, 8, 50304, 70_426_624, 18_915_328),
    (10, 640, 10, 50304, 113_625_600, 49_236_480),
    (12, 768, 12, 50304, 162_322_944, 85_056_000),
    (24, 1024, 16, 50304, 405_334_016, 302_311_424),
    (24, 1536, 16, 50304, 834_493_440, 679_959_552),
    (16, 2048, 8, 50304, 1_011_781_632, 805_736_448),
    (24, 2048, 16, 50304, 1_414_647_808, 1_208_602_624),
    (32, 2560, 32, 50304, 2_775_208_960, 2_517_652_480),
    (32, 4096, 32, 50304, 6_856_253_440, 6_444_163_072),
    (36, 5120, 40, 50304, 11_842_140_160, 11_327_027_200),
    (40, 5120, 40, 50304, 13_100_697_600, 12_585_584_640),
    (44, 6144, 64, 50432, 20_554_567_680, 19_934_859_264),
]


@pytest.mark.parametrize("layers, hidden, heads, vocabulary, total, inner", REFERENCE_COUNTS)
def test_counts_of_the_known_sizes(
    layers: int, hidden: int, heads: int, vocabulary: int, total: int, inner: int
) -> None:
    architecture = make_architecture(
        num_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        ffn_width=4 * hidden,
        vocab_size=50257,
        padded_vocab_size=vocabulary,
    )
    assert count_parameters(architecture) == total
    assert count_non_embedding_parameters(architecture) == inner
    with torch.device("meta"):
        model = GPTNeoX(architecture)
    assert sum(p.numel() for p in model.parameters()) == total


@pytest.mark.parametrize(
    "changes",
    [
        {"residual": "serial"},
        {"residual": "parallel", "pos_emb": "learned"},
        {"pos_emb": "alibi", "num_attention_heads": 8},
        {"pos_emb": "sinusoidal", "qk_norm": True},
        {"sliding_window": 4, "attention_layers": ("flash", "local"), "local_block": 4},
        {"residual": "parallel_tied", "pos_emb": "none", "num_kv_heads": 2, "activation": "swiglu", "norm": "rmsnorm"},
    ],
)
def test_a_later_token_never_changes_an_earlier_logit(changes: dict) -> None:
    architecture = make_architecture(**changes)
    model = make_random_model(architecture)
    tokens = make_tokens(architecture)
    changed = tokens.clone()
    changed[:, 15] = (changed[:, 15] + 1) % architecture.vocab_size
    with torch.no_grad():
        before, after = model(tokens), model(changed)
    assert torch.allclose(before[:, :15], after[:, :15], atol=1e-5)
    assert not torch.allclose(before[:, 15:], after[:, 15:], atol=1e-2)


def test_residual_forms_differ() -> None:
    serial, parallel = make_architecture(), make_architecture(residual="parallel")
    tokens = make_tokens(serial)
    with torch.no_grad():
        assert not torch.allclose(make_random_model(serial)(tokens), make_random_model(parallel)(tokens), atol=1e-2)


def test_a_parallel_block_without_biases_keeps_its_attention() -> None:
    architecture = make_architecture(residual="parallel", attention_bias=False, mlp_bias=False)
    model, tokens = make_random_model(architecture), make_tokens(architecture)
    with torch.no_grad():
        whole = model(tokens)
        for block in model.layers:
            block.attention.dense.weight.zero_()
        assert not torch.allclose(whole, model(tokens), atol=1e-2)


def test_loss_is_the_mean_over_next_tokens() -> None:
    architecture = make_architecture()
    model = make_random_model(architecture)
    tokens = make_tokens(architecture)
    with torch.no_grad():
        logits = model(tokens[:, :-1])[..., : architecture.vocab_size]
        wanted = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        assert torch.equal(model.loss(tokens), wanted)


@pytest.mark.parametrize("tied", [True, False])
def test_vocabulary_padding_gets_no_gradient_and_stays_zero(tied: bool) -> None:
    architecture = make_architecture(tied_embeddings=tied)
    model = make_random_model(architecture).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model.loss(make_tokens(architecture, seed=step)).backward()
        for name in ("word_embeddings.weight", "output.weight"):
            if not (tied and name == "output.weight"):
                assert not model.get_parameter(name).grad[architecture.vocab_size :].any()
        optimizer.step()
    assert not model.word_embeddings.weight[architecture.vocab_size :].any()
    assert tied or not model.output.weight[architecture.vocab_size :].any()


def test_padding_changes_neither_loss_nor_gradients() -> None:
    padded = make_architecture()
    exact = dataclasses.replace(padded, padded_vocab_size=padded.vocab_size)
    tokens = make_tokens(padded)
    first, second = make_random_model(padded), GPTNeoX(exact).eval()
    second.load_state_dict(
        {
            n: p[: exact.vocab_size] if p.shape[0] == padded.padded_vocab_size else p
            for n, p in first.state_dict().items()
        }
    )
    for model in (first, second):
        model.loss(tokens).backward()
    assert torch.allclose(first.loss(tokens), second.loss(tokens), rtol=1e-6)
    mine, other = first.layers[0].mlp.linear1.weight.grad, second.layers[0].mlp.linear1.weight.grad
    assert torch.allclose(mine, other, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("chunk", [1, 2, 3, 5])
def test_activation_checkpointing_changes_no_bit(chunk: int, dropout: float) -> None:
    architecture = make_architecture(num_layers=5, hidden_dropout=dropout, attention_dropout=dropout)
    tokens = make_tokens(architecture)
    results = []
    for checkpoint_layers in (0, chunk):
        model = make_random_model(architecture, checkpoint_layers=checkpoint_layers).train()
        torch.manual_seed(11)
        loss = model.loss(tokens)
        loss.backward()
        results.append((loss, [p.grad for p in model.parameters()]))
    (loss, gradients), (checkpointed_loss, checkpointed_gradients) = results
    assert torch.equal(loss, checkpointed_loss)
    assert all(torch.equal(a, b) for a, b in zip(gradients, checkpointed_gradients, strict=True))


def test_recomputed_layers_get_their_masks() -> None:
    architecture = make_architecture(pos_emb="alibi", sliding_window=5, attention_layers=("global", "local"))
    tokens = make_tokens(architecture)
    gradients = []
    for chunk in (0, 2):
        model = make_random_model(architecture, checkpoint_layers=chunk).train()
        model.loss(tokens).backward()
        gradients.append([p.grad for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


@pytest.mark.parametrize("pos_emb", ["learned", "rotary", "sinusoidal", "alibi"])
def test_positions_tell_equal_tokens_apart(pos_emb: str) -> None:
    """The same pair of tokens in another order before the last one: without positions nobody could tell."""
    tokens = torch.tensor([[5, 9, 4], [9, 5, 4]])
    differences = {}
    for kind in (pos_emb, "none"):
        with torch.no_grad():
            first, second = make_random_model(make_architecture(pos_emb=kind, num_layers=1))(tokens)[:, -1]
        differences[kind] = float((first - second).abs().max())
    assert differences["none"] < 1e-5 < 1e-3 < differences[pos_emb]


def test_a_window_bounds_what_a_token_sees() -> None:
    """One layer of window 3: token 10 sees tokens 7 to 10 and no other."""
    architecture = make_architecture(num_layers=1, sliding_window=3)
    model, tokens = make_random_model(architecture), make_tokens(architecture, batch=1)
    with torch.no_grad():
        wanted = model(tokens)[0, 10]
        for place in range(12):
            changed = tokens.clone()
            changed[0, place] = (changed[0, place] + 1) % architecture.vocab_size
            assert torch.allclose(model(changed)[0, 10], wanted, atol=1e-6) is (place not in range(7, 11))


def test_activation_checkpointing_really_recomputes() -> None:
    architecture = make_architecture(num_layers=4)
    calls = {0: 0, 2: 0}
    for checkpoint_layers in calls:
        model = make_random_model(architecture, checkpoint_layers=checkpoint_layers).train()

        def count(*_: object, key: int = checkpoint_layers) -> None:
            calls[key] += 1

        for block in model.layers:
            block.mlp.linear1.register_forward_hook(count)
        model.loss(make_tokens(architecture)).backward()
    assert calls == {0: 4, 2: 8}


def test_dropout_acts_in_training_only() -> None:
    architecture = make_architecture(hidden_dropout=0.3)
    model, tokens = make_random_model(architecture), make_tokens(architecture)
    assert torch.equal(model.loss(tokens), model.loss(tokens))
    model.train()
    assert not torch.equal(model.loss(tokens), model.loss(tokens))


def test_a_block_compiles_without_graph_breaks() -> None:
    architecture = make_architecture(num_kv_heads=2, residual="parallel", sliding_window=9)
    model, tokens = make_random_model(architecture), make_tokens(architecture)
    wanted = model.loss(tokens)
    for block in model.layers:
        block.compile(fullgraph=True, backend="aot_eager")
    assert torch.allclose(model.loss(tokens), wanted, rtol=1e-6)
    assert [name for name, _ in model.named_parameters()] == [p.name for p in list_parameters(architecture)]


def test_sixteen_bits_keep_the_angles_and_the_loss_in_fp32() -> None:
    architecture = make_architecture(rotary_pct=1.0)
    model, tokens = make_random_model(architecture), make_tokens(architecture)
    wanted = model.loss(tokens)
    loss = model.bfloat16().loss(tokens)
    assert loss.dtype == torch.float32
    assert abs(loss - wanted) / wanted < 0.02


@pytest.mark.parametrize(
    "changes, named",
    [
        ({"pos_emb": "rpe"}, "pos_emb"),
        ({"norm": "scalenorm"}, "norm"),
        ({"activation": "gelu_quick"}, "activation"),
        ({"attention_layers": ("global", "bigbird")}, "bigbird"),
    ],
)
def test_what_is_not_built_is_refused(changes: dict, named: str) -> None:
    with pytest.raises(NotBuiltError, match=named):
        GPTNeoX(make_architecture(**changes))


def test_learned_positions_end_where_the_table_ends() -> None:
    architecture = make_architecture(pos_emb="learned")
    with pytest.raises(ValueError, match="max_position_embeddings is 32"):
        make_random_model(architecture)(make_tokens(architecture, length=33))
