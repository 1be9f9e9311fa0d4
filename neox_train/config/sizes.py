"""What the numbers of a configuration multiply up to: tokens of a micro-batch, a step, a validation, the training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from neox_train.config.conflict import ConflictError, lead

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

_COUNTED = 1 << 63
"""Tokens and elements are counted in 64 bits with a sign."""
_MICRO_BATCH_TOKENS = 1 << 24
_STEP_TOKENS = 1 << 30
_TRAINING_TOKENS = 10**15
_TRAINING_STEPS = 10**8
"""Beyond what trainings have: about a million tokens a micro-batch, 10^8 a step, 10^14 and 10^7 steps in all."""


def check_sizes(values: Mapping[str, Any]) -> None:
    """Raise ConflictError where a product of resolved ``values`` cannot be counted in 64 bits."""
    step = ("train_batch_size", "seq_length")
    width = "hidden_size" if values["hidden_size"] > values["ffn_width"] else "ffn_width"
    products = (
        ("tokens of the training", ("train_iters", *step)),
        ("tokens of a validation", ("eval_iters", *step)),
        ("elements of a micro-batch's activations", ("train_micro_batch_size_per_gpu", "seq_length", width)),
    )
    for name, keys in products:
        total = 1
        for key in keys:
            total *= values[key] or 0
        if total >= _COUNTED:
            listed = " x ".join(f"{key} {values[key]}" for key in keys)
            raise ConflictError(
                f"{listed} is {total:.3g} {name}, and 64 bits count to {_COUNTED:.3g}; make one of them smaller", *keys
            )


def count_step_tokens(config: NeoxConfig) -> int:
    """Tokens of one optimizer step, over all ranks."""
    return config.train_batch_size * config.seq_length


def note_sizes(config: NeoxConfig) -> list[str]:
    """A sentence for each product that is beyond what trainings have, with what it comes to."""
    return [*_note_micro_batch(config), *_note_step(config), *_note_training(config), *_note_validation(config)]


def _note_micro_batch(config: NeoxConfig) -> list[str]:
    sequences, length = config.train_micro_batch_size_per_gpu, config.seq_length
    if sequences * length <= _MICRO_BATCH_TOKENS:
        return []
    sentence = (
        f"a micro-batch is {sequences:,} sequences of {length:,} tokens, {say_count(sequences * length)} tokens at "
        "once on one rank; the memory decides whether it can be held"
    )
    return [lead(config.places, sentence, "train_micro_batch_size_per_gpu", "seq_length")]


def _note_step(config: NeoxConfig) -> list[str]:
    tokens, batches = count_step_tokens(config), config.gradient_accumulation_steps
    if tokens <= _STEP_TOKENS:
        return []
    sentence = (
        f"a step is {batches:,} micro-batch{'es' * (batches > 1)} of "
        f"{config.train_micro_batch_size_per_gpu:,} sequences on each of {config.data_parallel_size:,} data-parallel "
        f"ranks: {config.train_batch_size:,} sequences, {say_count(tokens)} tokens; nothing is logged or saved before "
        "its end"
    )
    return [lead(config.places, sentence, "gradient_accumulation_steps", "train_batch_size")]


def _note_training(config: NeoxConfig) -> list[str]:
    steps = config.train_iters or 0
    tokens = steps * count_step_tokens(config)
    if tokens <= _TRAINING_TOKENS and steps <= _TRAINING_STEPS:
        return []
    sentence = f"the training is {steps:,} steps of {say_count(count_step_tokens(config))} tokens: {say_count(tokens)}"
    return [lead(config.places, sentence + " tokens in all", "train_iters")]


def _note_validation(config: NeoxConfig) -> list[str]:
    if not {"eval_iters", "eval_interval"} & config.places.keys() or config.eval_iters <= config.eval_interval:
        return []
    tokens = config.eval_iters * count_step_tokens(config)
    sentence = (
        f"eval_iters {config.eval_iters:,} is more than eval_interval {config.eval_interval:,}: a validation reads "
        f"{say_count(tokens)} tokens, or its whole split, which is more than is trained on between two of them"
    )
    return [lead(config.places, sentence, "eval_iters", "eval_interval")]


def say_count(number: int) -> str:
    """``1,024,000``, and from a million times a million on ``1.02e+15``."""
    return f"{number:,}" if number < 10**12 else f"{number:.3g}"
