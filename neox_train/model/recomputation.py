"""What a forward pass keeps of the layers whose activations the backward pass computes again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from neox_train.model.parallel.group import TensorGroup

Recompute = Callable[..., Any]
"""Called as torch's ``checkpoint``."""

_PRODUCTS = {
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten.bmm.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_cudnn_attention.default,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
}
"""Operations that cost more to repeat than their results take to keep: matrix products and fused attention."""


def build_recompute(
    *,
    base: Recompute = checkpoint,
    selective: bool = False,
    shared_by: TensorGroup | None = None,
    on_host: bool = False,
) -> Recompute:
    """A ``checkpoint`` for one training.

    ``selective`` keeps the results of matrix products and attention, and computes norms, activation functions and
    rotations again. The input of each recomputed chunk is kept whole, or ``shared_by`` the ranks that all hold the
    same, or ``on_host`` in pinned memory.
    """
    options = {"context_fn": partial(create_selective_checkpoint_contexts, _choose)} if selective else {}

    def keep_inputs() -> AbstractContextManager[object]:
        if shared_by is not None:
            return saved_tensors_hooks(partial(_cut, shared_by), partial(_join, shared_by))
        return save_on_cpu(pin_memory=torch.cuda.is_available()) if on_host else nullcontext()

    def recompute(function: Callable[..., Any], *arguments: Any, **given: Any) -> Any:
        with keep_inputs():
            return base(function, *arguments, **options, **given)

    return recompute


def _choose(context: Any, operation: Any, *arguments: Any, **options: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if operation in _PRODUCTS else CheckpointPolicy.PREFER_RECOMPUTE


_Kept = tuple[torch.Tensor, torch.Size | None]


def _cut(group: TensorGroup, tensor: torch.Tensor) -> _Kept:
    """This rank's part of a hidden state; what has no gradient (rotary tables) stays whole."""
    if not tensor.requires_grad or tensor.numel() % group.size:
        return tensor, None
    return tensor.detach().reshape(-1).chunk(group.size)[group.rank].clone(), tensor.shape


def _join(group: TensorGroup, kept: _Kept) -> torch.Tensor:
    part, shape = kept
    if shape is None:
        return part
    whole = part.new_empty(part.numel() * group.size)
    dist.all_gather_into_tensor(whole, part, group=group.process_group)
    return whole.view(shape)
