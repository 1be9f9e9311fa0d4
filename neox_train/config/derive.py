"""Everything derived from the keys, in one place."""

from __future__ import annotations

import dataclasses
from typing import Any

from neox_train.config.batches import derive_batches
from neox_train.config.conflict import ConflictError
from neox_train.config.decay_span import default_decay_iters
from neox_train.config.layers import derive_ffn_width, expand_attention
from neox_train.config.mup import derive_mup_base
from neox_train.config.one_bit import derive_one_bit
from neox_train.config.optimizer import fill_optimizer, fill_zero
from neox_train.config.precision import derive_precision, fill_fp16
from neox_train.config.rules import check_rules
from neox_train.config.schema import NeoxKeys
from neox_train.config.sizes import check_sizes
from neox_train.config.vocabulary import pad_vocab_size


def derive_values(keys: NeoxKeys, world_size: int | None, vocab_size: int | None) -> dict[str, Any]:
    """Values to lay over the keys; raises ConflictError where keys contradict each other."""
    check_rules(keys)
    values: dict[str, Any] = {}
    values.update(_derive_world(keys, world_size))
    batches = derive_batches(
        keys.train_batch_size,
        keys.train_micro_batch_size_per_gpu,
        keys.gradient_accumulation_steps,
        values["data_parallel_size"],
    )
    values.update(dataclasses.asdict(batches))
    values.update(_derive_numbers(keys))
    values.update(_derive_optimizer(keys))
    values["seq_length"] = keys.seq_length or keys.max_position_embeddings
    values["attention_layers"] = expand_attention(keys.attention_config, keys.num_layers)
    values["ffn_width"] = derive_ffn_width(
        keys.hidden_size, keys.intermediate_size, keys.expansion_factor, keys.mlp_multiple_of, keys.activation
    )
    _check_width(values["ffn_width"], values["model_parallel_size"])
    check_sizes({**keys.model_dump(include={"hidden_size", "train_iters", "eval_iters"}), **values})
    values["mup_base_hidden_size"] = derive_mup_base(keys)
    values["norm_epsilon"] = _choose_epsilon(keys)
    values["vocab_size"] = vocab_size
    values["padded_vocab_size"] = None
    if vocab_size is not None:
        values["padded_vocab_size"] = pad_vocab_size(
            vocab_size, keys.make_vocab_size_divisible_by, values["model_parallel_size"]
        )
    return values


def _derive_world(keys: NeoxKeys, world_size: int | None) -> dict[str, Any]:
    tensor, pipeline = max(1, keys.model_parallel_size), max(1, keys.pipe_parallel_size)
    world = world_size or keys.world_size or keys.global_num_gpus or tensor * pipeline
    if world % (tensor * pipeline):
        raise ConflictError(
            f"{world} processes (nodes x processes_per_node) cannot be cut into "
            f"model_parallel_size {tensor} x pipe_parallel_size {pipeline}; "
            f"{_name_products(world, tensor, pipeline)}use a multiple of {tensor * pipeline} processes",
            "world_size",
            "global_num_gpus",
            "model_parallel_size",
            "pipe_parallel_size",
        )
    return {
        "world_size": world,
        "model_parallel_size": tensor,
        "data_parallel_size": world // (tensor * pipeline),
        "is_pipe_parallel": keys.pipe_parallel_size > 1,
    }


def _name_products(world: int, tensor: int, pipeline: int) -> str:
    """The degrees nearest by that ``world`` processes can be cut into, one of the two as it is."""
    choices = []
    for key, kept, changed in (
        ("model_parallel_size", tensor, "pipe_parallel_size"),
        ("pipe_parallel_size", pipeline, "model_parallel_size"),
    ):
        if kept > 1 and world % kept == 0:
            fitting = [str(degree) for degree in range(1, world // kept + 1) if world // kept % degree == 0]
            choices.append(f"{key} {kept} with {changed} {' or '.join(fitting)}")
    return f"set {', '.join(choices)}, or " if choices else ""


def _derive_numbers(keys: NeoxKeys) -> dict[str, Any]:
    fp16, bf16, types = (_as_dict(block) for block in (keys.fp16, keys.bf16, keys.data_types))
    precision = derive_precision(keys.precision, fp16, bf16)
    values: dict[str, Any] = {"precision": precision, "fp16": fill_fp16(fp16, precision)}
    if precision == "bfloat16":
        values["bf16"] = {**(bf16 or {}), "enabled": True}
        values["data_types"] = {"grad_accum_dtype": _choose_accumulation((types or {}).get("grad_accum_dtype"))}
    return values


def _choose_accumulation(written: str | None) -> str:
    """Number format that adds up bfloat16 gradients."""
    if written == "fp16":
        raise ConflictError(
            "data_types.grad_accum_dtype is fp16, but bfloat16 gradients add up in fp32 or bf16; set it to fp32",
            "data_types.grad_accum_dtype",
            "precision",
        )
    return written or "fp32"


def _derive_optimizer(keys: NeoxKeys) -> dict[str, Any]:
    optimizer = fill_optimizer(_as_dict(keys.optimizer))
    zero = fill_zero(_as_dict(keys.zero_optimization))
    lr = optimizer["params"]["lr"]
    if keys.min_lr > lr:
        raise ConflictError(
            f"min_lr {keys.min_lr} is more than optimizer.params.lr {lr}; make it smaller",
            "min_lr",
            "optimizer.params.lr",
        )
    method, kind = derive_one_bit(keys.gradient_compression, optimizer["type"].lower())
    decay_iters = keys.lr_decay_iters
    if decay_iters is None:
        decay_iters = default_decay_iters(keys.train_iters, keys.lr_decay_fraction)
    return {
        "optimizer": optimizer,
        "optimizer_type": kind,
        "gradient_compression": method,
        "lr": lr,
        "zero_optimization": zero,
        "zero_stage": zero["stage"],
        "lr_decay_iters": decay_iters,
    }


def _check_width(ffn_width: int, degree: int) -> None:
    if ffn_width % degree:
        raise ConflictError(
            f"the MLP is {ffn_width} wide, which is not a multiple of model_parallel_size {degree}; set "
            f"intermediate_size so that it becomes {-(-ffn_width // degree) * degree}, or mlp_multiple_of: {degree}",
            "model_parallel_size",
        )


def _choose_epsilon(keys: NeoxKeys) -> float:
    if "rms" in keys.norm:
        return keys.rms_norm_epsilon
    return keys.scalenorm_epsilon if keys.norm == "scalenorm" else keys.layernorm_epsilon


def _as_dict(block: Any) -> dict[str, Any] | None:
    return None if block is None else dict(block)
