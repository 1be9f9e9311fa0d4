"""AdamW with 8-bit states over flat buffers: what bitsandbytes computes, in one pass over memory.

bitsandbytes' own kernel wants fp32 gradients, and leaves the clipping before it and the 16-bit weights after it to
passes of their own. States, code books and their place in checkpoints are bitsandbytes'.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import torch

from neox_train.training.eight_bit_codes import CodeBook, encode, encode_signed
from neox_train.training.flat_adamw import choose_adamw_kernel
from neox_train.training.flat_group import FlatGroup

BLOCK = 256
"""Elements that share one scale (bitsandbytes')."""
_SMALLEST_SCALE = 1e-37


def covers(optimizer: torch.optim.Optimizer) -> bool:
    """Whether ``optimizer`` is bitsandbytes' AdamW with states on the device: Lion and paged states it steps itself."""
    return getattr(optimizer, "optimizer_name", None) == "adam" and not getattr(optimizer, "is_paged", True)


class FlatAdam8bit:
    """Steps the states of bitsandbytes' ``optimizer``, one of those that ``covers`` names."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._books: tuple[CodeBook, CodeBook] | None = None

    @torch.no_grad()
    def apply(
        self, flat_groups: Iterable[FlatGroup], gradients: Iterable[torch.Tensor], norm: torch.Tensor, clipping: float
    ) -> None:
        """Update each group's masters, and its partition of the 16-bit weights, from its gradient of any type.

        ``norm`` is the global gradient norm, finite; ``clipping`` above 0 is the largest norm that is applied.
        """
        # torch's clip_grad_norm_ adds the same 1e-6.
        scale = (clipping / (norm + 1e-6)).clamp(max=1.0) if clipping else torch.ones_like(norm)
        groups = self._optimizer.param_groups
        for index, (group, flat, gradient) in enumerate(zip(groups, flat_groups, gradients, strict=True)):
            state = self._optimizer.state[flat.master]
            if not state:
                self._optimizer.init_state(group, flat.master, index, 0)
            state["step"] += 1
            first_rate, second_rate = group["betas"]
            constants = (
                # Tensors, because a number would be part of the compiled kernel.
                torch.full_like(scale, group["lr"] / (1.0 - first_rate ** state["step"])),
                torch.full_like(scale, 1.0 - group["lr"] * group["weight_decay"]),
                torch.full_like(scale, (1.0 - second_rate ** state["step"]) ** 0.5),
                first_rate,
                second_rate,
                group["eps"],
            )
            tensors = (flat.master.detach(), state["state1"], state["state2"], gradient, flat.partition(flat.weights))
            if state["state1"].dtype == torch.float32:
                kernel = choose_adamw_kernel(flat.master.device.type)
                kernel(*tensors, scale, torch.ones_like(scale, dtype=torch.bool), *constants)
            else:
                self._apply_blocks(tensors, (state["absmax1"], state["absmax2"]), scale, constants)

    def _apply_blocks(
        self,
        tensors: tuple[torch.Tensor, ...],
        absmax: tuple[torch.Tensor, torch.Tensor],
        scale: torch.Tensor,
        constants: tuple[Any, ...],
    ) -> None:
        """The whole blocks by one kernel, then the shorter one that a share may end with."""
        if self._books is None:
            books = self._optimizer.name2qmap
            self._books = CodeBook(books["dynamic"]), CodeBook(books["udynamic"])
        kernel = _choose_kernel(scale.device.type)
        length = tensors[0].numel()
        whole = length - length % BLOCK
        for part, blocks, block in (
            (slice(0, whole), slice(0, whole // BLOCK), BLOCK),
            (slice(whole, length), slice(whole // BLOCK, None), length - whole),
        ):
            if part.start < part.stop:
                cut = [tensor[part] for tensor in tensors]
                kernel(*cut, *(kept[blocks] for kept in absmax), scale, *constants, *self._list_tables(), block)

    def _list_tables(self) -> tuple[torch.Tensor, ...]:
        assert self._books is not None
        return tuple(table for book in self._books for table in (book.values, book.starts, book.bounds))


def _update(
    master: torch.Tensor,
    first: torch.Tensor,
    second: torch.Tensor,
    gradient: torch.Tensor,
    weights: torch.Tensor,
    first_absmax: torch.Tensor,
    second_absmax: torch.Tensor,
    scale: torch.Tensor,
    step_size: torch.Tensor,
    shrink: torch.Tensor,
    denominator_scale: torch.Tensor,
    first_rate: float,
    second_rate: float,
    eps: float,
    first_values: torch.Tensor,
    first_starts: torch.Tensor,
    first_bounds: torch.Tensor,
    second_values: torch.Tensor,
    second_starts: torch.Tensor,
    second_bounds: torch.Tensor,
    block: int,
) -> None:
    """One step; moments are read and written in blocks of ``block`` elements, and applied before they are rounded."""
    applied = gradient.view(-1, block).float() * scale
    old_first = first_values[first.view(-1, block).int()] * first_absmax[:, None]
    old_second = second_values[second.view(-1, block).int()] * second_absmax[:, None]
    new_first = first_rate * old_first + (1.0 - first_rate) * applied
    new_second = second_rate * old_second + (1.0 - second_rate) * applied * applied
    old_master = master.view(-1, block)
    new_master = old_master * shrink - step_size * new_first / (new_second.sqrt() / denominator_scale + eps)
    first_scale = new_first.abs().amax(dim=1).clamp(min=_SMALLEST_SCALE)
    second_scale = new_second.amax(dim=1).clamp(min=_SMALLEST_SCALE)
    first_codes = encode_signed(new_first / first_scale[:, None], first_starts, first_bounds)
    second_codes = encode(new_second / second_scale[:, None], second_starts, second_bounds)
    weights.view(-1, block).copy_(new_master)
    old_master.copy_(new_master)
    first.view(-1, block).copy_(first_codes)
    second.view(-1, block).copy_(second_codes)
    first_absmax.copy_(first_scale)
    second_absmax.copy_(second_scale)


@cache
def _choose_kernel(device_type: str) -> Any:
    # Dynamic: a model of many groups has as many lengths, and one kernel serves them all.
    return torch.compile(_update, fullgraph=True, dynamic=True) if device_type == "cuda" else _update
