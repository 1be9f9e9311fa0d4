from __future__ import annotations

import pytest

from neox_train.config.nearest import ask_nearest, find_nearest
from tests.config.files import refuse_tiny


@pytest.mark.parametrize(
    ("name", "known", "nearest"),
    [
        ("Adma", ["adam", "adamw", "lion"], "adam"),
        ("HFTokeniser", ["HFTokenizer", "SPMTokenizer"], "HFTokenizer"),
        ("hiden_size", ["hidden_size", "seq_length"], "hidden_size"),
        ("banana", ["adam", "adamw"], None),
        ("", ["adam"], None),
    ],
)
def test_a_slip_is_known_and_another_word_is_not(name: str, known: list[str], nearest: str | None) -> None:
    assert find_nearest(name, known) == nearest
    assert ask_nearest(name, known) == (f"; did you mean {nearest}?" if nearest else "")


@pytest.mark.parametrize(
    ("keys", "asked"),
    [
        ({"optimizer": {"type": "Adma", "params": {"lr": 0.1}}}, "adam"),
        ({"norm": "rmsnrom"}, "rmsnorm"),
        ({"activation": "swigul"}, "swiglu"),
        ({"lr_decay_style": "cosin"}, "cosine"),
        ({"tokenizer_type": "HFTokeniser"}, "HFTokenizer"),
        ({"attention_config": ["globl", "flash"]}, "global"),
        ({"sparsity_config": {"num_local_block": 3}}, "num_local_blocks"),
        ({"deepspeed_extra_args": {"zero_optimisation": {}}}, "zero_optimization"),
        ({"train_iter": 3}, "train_iters"),
    ],
)
def test_every_refusal_of_a_name_suggests_the_nearest(keys: dict[str, object], asked: str) -> None:
    sentence = refuse_tiny(**keys)
    assert sentence.endswith(f"did you mean {asked}?"), sentence
