"""What GPT-NeoX's fusion keys name is fused here: against the same arithmetic spelled out, both ways."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from neox_train.config.architecture import Architecture
from neox_train.config.implementations import Implementations
from neox_train.model.attention import SelfAttention
from neox_train.model.heads import fuse_rotation, split_heads
from neox_train.model.layers import LocalLayers
from neox_train.model.norm import build_norm
from neox_train.model.rotary import Rotary, apply_rotary
from tests.config.files import load_tiny
from tests.model.architectures import make_architecture, make_random_model

FUSIONS = {
    "scaled_upper_triang_masked_softmax_fusion": True,
    "bias_gelu_fusion": True,
    "bias_dropout_fusion": True,
    "rope_fusion": True,
    "layernorm_fusion": True,
}


def compare(fused: Callable[..., torch.Tensor], plain: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> None:
    """Results and gradients of both, on copies of the same inputs."""
    seen = []
    for function in (fused, plain):
        copies = [tensor.clone().requires_grad_() for tensor in inputs]
        result = function(*copies)
        result.square().sum().backward()
        seen.append([result, *(copy.grad for copy in copies)])
    for ours, theirs in zip(*seen, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


def test_scaled_upper_triang_masked_softmax_fusion() -> None:
    architecture = make_architecture()
    attention = SelfAttention(architecture, LocalLayers(), kind="global")
    generator = torch.Generator().manual_seed(1)
    for parameter in attention.parameters():
        nn.init.normal_(parameter, 0.0, 0.2, generator=generator)
    heads, width = architecture.num_attention_heads, architecture.head_dim

    def fused(hidden: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = attention(hidden, None)
        return result

    def plain(hidden: torch.Tensor) -> torch.Tensor:
        batch, length, _ = hidden.shape
        projected = attention.query_key_value(hidden).view(batch, length, heads, 3, width)
        queries, keys, values = (part.transpose(1, 2) for part in projected.unbind(3))
        scores = queries @ keys.transpose(-1, -2) / math.sqrt(width)
        hidden_later = torch.ones(length, length, dtype=torch.bool).triu(1)
        context = scores.masked_fill(hidden_later, -math.inf).softmax(-1) @ values
        return attention.dense(context.transpose(1, 2).flatten(2))

    compare(fused, plain, 0.1 * torch.randn(2, 33, architecture.hidden_size, generator=generator))


def test_rope_fusion() -> None:
    tables = Rotary(8, 10_000).tables(24, torch.device("cpu"))

    def fused(groups: torch.Tensor) -> torch.Tensor:
        return torch.cat([part.flatten() for part in split_heads(groups, tables)])

    def plain(groups: torch.Tensor) -> torch.Tensor:
        queries, keys, values = groups[..., :-2, :].flatten(2, 3), groups[..., -2, :], groups[..., -1, :]
        rotated = [apply_rotary(heads, tables) for heads in (queries, keys)]
        return torch.cat([part.flatten() for part in (*rotated, values)])

    compare(fused, plain, draw(2, 24, 3, 4, 16))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_compiled_rotation_is_the_one_operation_by_operation(dtype: torch.dtype) -> None:
    tables = Rotary(8, 10_000).tables(24, torch.device("cpu"))
    groups = draw(2, 24, 3, 4, 16).to(dtype)
    seen = []
    for wanted in (False, True):
        fuse_rotation(wanted)
        try:
            copy = groups.clone().requires_grad_()
            parts = split_heads(copy, tables)
            sum(part.float().square().sum() for part in parts).backward()  # type: ignore[union-attr]
            seen.append([*parts, copy.grad])
        finally:
            fuse_rotation(False)
    for plain, fused in zip(*seen, strict=True):
        # A compiled product may add without rounding in between: a last place of its number format.
        torch.testing.assert_close(fused, plain, rtol=1e-6 if dtype == torch.float32 else 8e-3, atol=1e-6)


@pytest.mark.gpu
def test_a_gpu_rotates_in_a_kernel_or_two() -> None:
    device = torch.device("cuda")
    tables = Rotary(64, 10_000).tables(2048, device)
    groups = torch.randn(4, 2048, 16, 3, 128, device=device, dtype=torch.bfloat16, requires_grad=True)
    kernels = {}
    for wanted in (False, True):
        fuse_rotation(wanted)
        try:
            for _ in range(3):
                torch.autograd.backward(
                    split_heads(groups, tables), tuple(map(torch.ones_like, split_heads(groups, tables)))
                )
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
                parts = split_heads(groups, tables)
                torch.cuda.synchronize()
            del parts
        finally:
            fuse_rotation(False)
        kernels[wanted] = sum(event.count for event in profiler.key_averages())
    assert kernels[True] <= 4 < 10 <= kernels[False]


def test_the_key_selects_it_where_layers_are_not_compiled() -> None:
    def fused(device: Any, **keys: Any) -> bool:
        return Implementations.choose(load_tiny(**keys), device).fused_rotation

    cut = {"model_parallel_size": 2, "processes": 2}
    assert fused("cuda", rope_fusion=True, **cut)
    assert fused("cuda", rope_fusion=True, zero_optimization={"stage": 3})
    assert not fused("cuda", **cut)
    assert not fused("cuda", rope_fusion=True)
    assert not fused("cpu", rope_fusion=True, **cut)


@pytest.mark.parametrize("name", ["layernorm", "rmsnorm"])
def test_layernorm_and_rmsnorm_fusion(name: str) -> None:
    architecture = make_architecture(norm=name, norm_epsilon=1e-3)

    def plain(hidden: torch.Tensor) -> torch.Tensor:
        centred = hidden - hidden.mean(-1, keepdim=True) if name == "layernorm" else hidden
        return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + architecture.norm_epsilon)

    compare(build_norm(architecture), plain, draw(4, 8, architecture.hidden_size))


def test_all_keys_together_change_the_form_of_gelu_alone() -> None:
    plain, fused = (Architecture.from_config(load_tiny(**keys).with_vocab_size(90)) for keys in ({}, FUSIONS))
    assert (plain.activation, fused.activation) == ("gelu", "gelu_tanh")
    tokens = torch.randint(0, 90, (2, 24), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        ours, theirs = make_random_model(fused)(tokens), make_random_model(plain)(tokens)
    assert 0 < float((ours - theirs).abs().max()) < 0.01 * float(theirs.abs().max())
