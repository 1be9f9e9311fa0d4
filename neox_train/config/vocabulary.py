"""Padding of the vocabulary, so that the embedding cuts evenly over tensor-parallel ranks."""

from __future__ import annotations


def pad_vocab_size(vocab_size: int, divisible_by: int, model_parallel_size: int) -> int:
    """Smallest multiple of ``divisible_by * model_parallel_size`` that holds ``vocab_size`` tokens."""
    multiple = divisible_by * max(1, model_parallel_size)
    return -(-vocab_size // multiple) * multiple
