from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neox_train.config.batches import Batches, derive_batches
from tests.config.files import refuse, refuse_tiny

counts = st.integers(1, 64)


@pytest.mark.parametrize(
    ("given_three", "ranks", "expected"),
    [
        ((None, 4, None), 2, Batches(8, 4, 1)),
        ((None, 4, 3), 2, Batches(24, 4, 3)),
        ((32, 4, None), 2, Batches(32, 4, 4)),
        ((32, None, 2), 2, Batches(32, 8, 2)),
        ((32, None, None), 2, Batches(32, 16, 1)),
        ((32, 4, 4), 2, Batches(32, 4, 4)),
    ],
)
def test_any_two_give_the_third(
    given_three: tuple[int | None, int | None, int | None], ranks: int, expected: Batches
) -> None:
    assert derive_batches(*given_three, ranks) == expected


@given(counts, counts, counts)
def test_derivation_agrees_with_the_product(micro: int, accumulation: int, ranks: int) -> None:
    whole = derive_batches(None, micro, accumulation, ranks)
    assert whole.train_batch_size == micro * accumulation * ranks
    assert derive_batches(whole.train_batch_size, micro, None, ranks) == whole
    assert derive_batches(whole.train_batch_size, None, accumulation, ranks) == whole


def test_written_accumulation_of_one_is_kept() -> None:
    assert "is 8; leave one of the three out" in refuse(lambda: derive_batches(32, 4, 1, 2))


@pytest.mark.parametrize(
    ("three", "name"), [((30, 4, None), "micro_batch"), ((2, 4, None), "micro"), ((9, None, 2), "accum")]
)
def test_what_does_not_divide_is_refused(three: tuple[int | None, int | None, int | None], name: str) -> None:
    sentence = refuse(lambda: derive_batches(*three, 2))
    assert f"train_batch_size {three[0]} is not a multiple" in sentence
    assert name in sentence


def test_no_batch_at_all_is_refused() -> None:
    assert "train_micro_batch_size_per_gpu" in refuse(lambda: derive_batches(None, None, 2, 1))


def test_the_sentence_names_every_file_and_line() -> None:
    sentence = refuse_tiny(train_batch_size=7)
    assert "override train_batch_size" in sentence
    assert "base.yml, line 19" in sentence
