"""Rules between keys that no single key can break."""

from __future__ import annotations

import math

from neox_train.config.blends import check_blend
from neox_train.config.conflict import ConflictError
from neox_train.config.nearest import ask_nearest, find_nearest
from neox_train.config.schema import NeoxKeys
from neox_train.config.sections.data import TOKENIZER_TYPES
from neox_train.config.split import read_split


def check_rules(keys: NeoxKeys) -> None:
    """Raise ConflictError for the first broken rule."""
    _check_heads(keys)
    _check_sequence(keys)
    _check_tensor_parallel(keys)
    _check_pipeline(keys)
    _check_saving(keys)
    _check_phases(keys)
    _check_local_window(keys)
    _check_rivals(keys)
    check_blend(keys)
    _check_tokenizer(keys)
    read_split(keys.split)
    if keys.gpt_j_tied and not keys.gpt_j_residual:
        raise ConflictError(
            "gpt_j_tied is true, which needs a parallel residual; set gpt_j_residual: true too",
            "gpt_j_tied",
            "gpt_j_residual",
        )


def _check_tokenizer(keys: NeoxKeys) -> None:
    if keys.tokenizer_type.lower() not in map(str.lower, TOKENIZER_TYPES):
        raise ConflictError(
            f"tokenizer_type is {keys.tokenizer_type!r}; one of {', '.join(TOKENIZER_TYPES)} is wanted"
            + ask_nearest(keys.tokenizer_type, TOKENIZER_TYPES),
            "tokenizer_type",
        )


def _check_heads(keys: NeoxKeys) -> None:
    heads, kv_heads = keys.num_attention_heads, keys.num_kv_heads
    if keys.hidden_size % heads:
        raise ConflictError(
            f"hidden_size {keys.hidden_size} is not a multiple of num_attention_heads {heads}; "
            "choose a number of heads that divides it",
            "num_attention_heads",
            "hidden_size",
        )
    if kv_heads is not None and heads % kv_heads:
        raise ConflictError(
            f"num_attention_heads {heads} is not a multiple of num_kv_heads {kv_heads}; "
            "choose a number of key-value heads that divides it",
            "num_kv_heads",
            "num_attention_heads",
        )


def _check_sequence(keys: NeoxKeys) -> None:
    if keys.seq_length is not None and keys.seq_length > keys.max_position_embeddings:
        raise ConflictError(
            f"seq_length {keys.seq_length} is more than max_position_embeddings {keys.max_position_embeddings}; "
            "shorten the sequence or raise max_position_embeddings",
            "seq_length",
            "max_position_embeddings",
        )
    head_dim = keys.hidden_size // keys.num_attention_heads
    rotary_dim = int(head_dim * keys.rotary_pct)
    if keys.pos_emb == "rotary" and (rotary_dim % 2 or rotary_dim == 0):
        raise ConflictError(
            f"rotary_pct {keys.rotary_pct} of a head of width {head_dim} rotates {rotary_dim} dimensions; "
            "an even number above 0 is wanted",
            "rotary_pct",
            "num_attention_heads",
        )


def _check_tensor_parallel(keys: NeoxKeys) -> None:
    degree = max(1, keys.model_parallel_size)
    counts = {"num_attention_heads": keys.num_attention_heads, "num_kv_heads": keys.num_kv_heads}
    if keys.sequence_parallel:
        counts["seq_length"] = keys.seq_length or keys.max_position_embeddings
    for name, count in counts.items():
        if count is not None and count % degree:
            shared = math.gcd(*(each for each in counts.values() if each is not None))
            legal = [size for size in range(1, min(degree - 1, shared) + 1) if not shared % size]
            raise ConflictError(
                f"{name} {count} is not a multiple of model_parallel_size {degree}; "
                f"set model_parallel_size to {' or '.join(map(str, legal))}",
                name,
                "model_parallel_size",
            )


def _check_pipeline(keys: NeoxKeys) -> None:
    stages = keys.pipe_parallel_size
    if stages < 2:
        return
    if stages > keys.num_layers:
        raise ConflictError(
            f"pipe_parallel_size {stages} is more than num_layers {keys.num_layers}, and every stage needs a layer; "
            f"set pipe_parallel_size to {keys.num_layers} or less",
            "pipe_parallel_size",
            "num_layers",
        )
    zero = int((keys.zero_optimization or {}).get("stage", 0))
    if zero > 1:
        raise ConflictError(
            f"zero_optimization.stage {zero} does not go with pipe_parallel_size {stages}: gradients of a pipeline's "
            "micro-batches stay whole until the last one; set zero_optimization.stage: 1, or pipe_parallel_size: 1",
            "zero_optimization.stage",
            "pipe_parallel_size",
        )


def _check_phases(keys: NeoxKeys) -> None:
    if keys.lr_decay_style == "wsd" and keys.warmup + keys.wsd_decay_fraction > 1 + 1e-9:
        raise ConflictError(
            f"warmup {keys.warmup:g} and wsd_decay_fraction {keys.wsd_decay_fraction:g} are shares of one span and add "
            "up to more than 1; make one of them smaller",
            "warmup",
            "wsd_decay_fraction",
        )


_SPARSITY_KEYS = (
    "mode",
    "block",
    "different_layout_per_head",
    "num_local_blocks",
    "num_global_blocks",
    "num_random_blocks",
    "num_sliding_window_blocks",
    "num_different_global_patterns",
    "local_window_blocks",
    "global_block_indices",
    "global_block_end_indices",
    "horizontal_global_attention",
    "attention",
)
"""What DeepSpeed's sparse attention reads, which upstream hands the block to."""


def _check_local_window(keys: NeoxKeys) -> None:
    for name in keys.sparsity_config:
        if name not in _SPARSITY_KEYS:
            near = find_nearest(name, _SPARSITY_KEYS)
            remedy = f"did you mean {near}?" if near else f"remove it (known are {', '.join(_SPARSITY_KEYS)})"
            raise ConflictError(f"sparsity_config.{name} is not a known key; {remedy}", f"sparsity_config.{name}")
    for name in ("block", "num_local_blocks", "num_sliding_window_blocks"):
        value = keys.sparsity_config.get(name, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConflictError(
                f"sparsity_config.{name} is {value!r}; a whole number above 0 is wanted", f"sparsity_config.{name}"
            )


def _check_rivals(keys: NeoxKeys) -> None:
    if {"num_local_blocks", "num_sliding_window_blocks"} <= keys.sparsity_config.keys():
        raise ConflictError(
            "sparsity_config has num_local_blocks and num_sliding_window_blocks, which say the same; remove one",
            "sparsity_config",
        )
    if keys.fp32_allreduce and keys.communication_data_type not in (None, "fp32"):
        raise ConflictError(
            f"fp32_allreduce is true and communication_data_type is {keys.communication_data_type}; remove one",
            "fp32_allreduce",
            "communication_data_type",
        )


def _check_saving(keys: NeoxKeys) -> None:
    factor = keys.checkpoint_factor
    if keys.save is not None and factor is None and not keys.extra_save_iters:
        raise ConflictError(
            "save is set but neither checkpoint_factor nor extra_save_iters is; set checkpoint_factor to the steps "
            "between checkpoints",
            "save",
        )
    for step in keys.extra_save_iters or ():
        if step < 0:
            raise ConflictError(
                f"extra_save_iters holds {step}; steps of 0 (the initial weights) or more are wanted",
                "extra_save_iters",
            )
    if factor is None:
        return
    if keys.checkpoint_scale == "linear" and (factor < 1 or factor != int(factor)):
        raise ConflictError(
            f"checkpoint_factor is {factor}; with checkpoint_scale linear a whole number of steps from 1 on is wanted",
            "checkpoint_factor",
        )
    if keys.checkpoint_scale == "log" and factor <= 1:
        raise ConflictError(
            f"checkpoint_factor is {factor}; with checkpoint_scale log a number above 1 is wanted", "checkpoint_factor"
        )
