"""Yardsticks: figures worked out by hand, and the real xz where it is installed."""

from __future__ import annotations

import lzma
import math
import shutil
import subprocess

import numpy as np
import pytest

from neox_train.evaluation.yardsticks import count_tokens, unigram_bits, xz_bytes


def test_counts_every_chunk():
    chunks = [np.array([0, 2, 2], dtype=np.uint16), np.array([], dtype=np.uint16), np.array([2, 3], dtype=np.uint16)]
    assert count_tokens(chunks, vocab_size=5).tolist() == [1, 0, 3, 1, 0]


def test_unigram_bits_of_a_small_case():
    # Smoothed train counts 4, 1, 3 of 8: codes of 1, 3 and log2(8/3) bits.
    train, held_out = np.array([3, 0, 2]), np.array([2, 1, 1])
    assert unigram_bits(train, held_out) == pytest.approx(2 * 1 + 3 + math.log2(8 / 3))


def test_unigram_without_any_train_text_is_uniform():
    assert unigram_bits(np.zeros(16, dtype=np.int64), np.array([5] + [0] * 15)) == pytest.approx(5 * 4)


@pytest.fixture(scope="module")
def documents() -> list[bytes]:
    return [f"line {number}: the same words again and again\n".encode() * 20 for number in range(30)] + [b""]


def test_xz_size_is_that_of_the_joined_text(documents: list[bytes]):
    assert xz_bytes(documents) == len(lzma.compress(b"".join(documents), preset=9))


@pytest.mark.skipif(shutil.which("xz") is None, reason="the xz command is not installed: apt-get install xz-utils")
def test_xz_size_is_that_of_the_command(documents: list[bytes]):
    packed = subprocess.run(["xz", "-9", "-T1", "--stdout"], input=b"".join(documents), capture_output=True, check=True)
    assert xz_bytes(documents) == len(packed.stdout)
