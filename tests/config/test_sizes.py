"""Numbers that multiply up beyond all reason: refused where 64 bits end, told with what they come to before that."""

from __future__ import annotations

from pathlib import Path

import pytest

from neox_train.config.load import load_config
from neox_train.config.sizes import count_step_tokens, note_sizes, say_count
from tests.config.files import TINY, load_tiny, refuse_tiny
from tests.config.test_configs import PARAMETERS


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (
            {"gradient_accumulation_steps": 10**9, "train_micro_batch_size_per_gpu": 4, "processes": 2},
            "override gradient_accumulation_steps: a step is 1,000,000,000 micro-batches of 4 sequences on each of 2 "
            "data-parallel ranks: 8,000,000,000 sequences, 512,000,000,000 tokens; nothing is logged or saved before "
            "its end",
        ),
        (
            {"train_iters": 10**12},
            "override train_iters: the training is 1,000,000,000,000 steps of 256 tokens: 2.56e+14 tokens in all",
        ),
        (
            {"eval_iters": 10**9, "eval_interval": 50},
            "override eval_iters and override eval_interval: eval_iters 1,000,000,000 is more than eval_interval 50: a "
            "validation reads 256,000,000,000 tokens, or its whole split, which is more than is trained on between two "
            "of them",
        ),
        (
            {"train_micro_batch_size_per_gpu": 10**6},
            "override train_micro_batch_size_per_gpu and {base}: a micro-batch is 1,000,000 sequences of 64 tokens, "
            "64,000,000 tokens at once on one rank; the memory decides whether it can be held",
        ),
    ],
)
def test_what_a_number_comes_to_is_told(keys: dict[str, object], told: str) -> None:
    config = load_tiny(**keys)
    base = config.places["seq_length"]
    assert note_sizes(config) == [told.format(base=base)]
    assert set(note_sizes(config)) <= set(config.notices)


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"train_iters": 10**17}, ["train_iters 1" + "0" * 17 + " x train_batch_size", "tokens of the training"]),
        ({"eval_iters": 10**17}, ["eval_iters", "tokens of a validation"]),
        ({"gradient_accumulation_steps": 10**17}, ["train_batch_size", "tokens of the training"]),
        ({"seq_length": 10**17, "max_position_embeddings": 10**17}, ["seq_length 1" + "0" * 17]),
        ({"train_micro_batch_size_per_gpu": 10**15}, ["elements of a micro-batch's activations", "ffn_width 256"]),
    ],
)
def test_what_cannot_be_counted_is_refused(keys: dict[str, object], named: list[str]) -> None:
    sentence = refuse_tiny(**{"train_iters": 1, "eval_iters": 0, **keys})
    assert all(word in sentence for word in [*named, "64 bits count to 9.22e+18; make one of them smaller"]), sentence


def test_lines_of_a_file_lead_the_sentence(tmp_path: Path) -> None:
    file = tmp_path / "more.yml"
    file.write_text("gradient_accumulation_steps: 1_000_000_000\n")
    (note,) = note_sizes(load_config([*TINY, file]))
    assert note.startswith(f"{file}, line 1: a step is 1,000,000,000 micro-batches")


@pytest.mark.parametrize("name", PARAMETERS)
def test_shipped_sizes_are_within_reason(repository: Path, name: str) -> None:
    config = load_config([repository / "configs" / f"{name}.yml"], world_size=8)
    assert note_sizes(config) == []
    assert count_step_tokens(config) == config.train_batch_size * config.seq_length


def test_counts_are_read_at_a_glance() -> None:
    assert (say_count(1024), say_count(10**12 - 1), say_count(1_024 * 10**12)) == (
        "1,024",
        "999,999,999,999",
        "1.02e+15",
    )
