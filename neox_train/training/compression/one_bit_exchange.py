"""The mean of a buffer over ranks by signs: one bit an element each way, and what signs miss is added next time.

Source: Tang and others, "1-bit Adam: Communication Efficient Large-Scale Training with Adam's Convergence Speed",
arXiv 2102.02888, section 4 (workers compress, each serves one chunk, the servers compress again).
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.distributed as dist

_BITS = 8
_TO_TOP_BYTE = 0x8040201008040201 - 2**64
"""Times eight bytes of 0 or 1 in an integer: puts the bit of the first byte highest in the top byte, and so on."""
BLOCK = 256
"""Values that share a scale. The paper has one scale a tensor; then rows of the embeddings that a batch did not touch
get as much noise as those it did."""


def pack_signs(values: torch.Tensor) -> torch.Tensor:
    """One bit an element, 1 for 0 and above, as uint8 with the first element in the highest bit; [n] to [n / 8]."""
    eight = (values >= 0).view(torch.uint8).view(torch.int64)
    return eight.mul(_TO_TOP_BYTE).bitwise_right_shift(56).to(torch.uint8)


def unpack_signs(packed: torch.Tensor) -> torch.Tensor:
    """fp32 +1 and -1 of ``pack_signs``; [..., n / 8] to [..., n]."""
    return _list_signs(packed.device).index_select(0, packed.flatten().int()).view(*packed.shape[:-1], -1)


@functools.cache
def _list_signs(device: torch.device) -> torch.Tensor:
    """The eight signs of every byte, [256, 8]."""
    places = torch.arange(_BITS - 1, -1, -1, device=device)
    bits = torch.arange(256, device=device).unsqueeze(1).bitwise_right_shift(places).bitwise_and(1)
    return bits.float().mul_(2).sub_(1)


def measure_scales(values: torch.Tensor) -> torch.Tensor:
    """Root mean square of every ``BLOCK`` values, of the rest at the end; [chunks, n] to [chunks, blocks]."""
    chunks, length = values.shape
    blocks = -(-length // BLOCK)
    squares = torch.nn.functional.pad(values.square(), (0, blocks * BLOCK - length)).view(chunks, blocks, BLOCK).sum(2)
    squares[:, :-1] /= BLOCK
    squares[:, -1] /= length - (blocks - 1) * BLOCK
    return squares.sqrt_()


def restore_signs(signs: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Values [chunks, n] of their signs [chunks, n / 8] and scales [chunks, blocks]."""
    values = unpack_signs(signs)
    chunks, length = values.shape
    whole = length // BLOCK
    values[:, : whole * BLOCK].view(chunks, whole, BLOCK).mul_(scales[:, :whole, None])
    values[:, whole * BLOCK :].mul_(scales[:, whole:])
    return values


class OneBitExchange:
    """What DeepSpeed's 1-bit optimizers call for their communication, in torch operations on CPU and GPU alike.

    Takes the place of DeepSpeed's backends, which need a packing kernel or cupy.
    """

    def __init__(self, group: Any) -> None:
        self._group = group
        self.size = dist.get_world_size(group)
        self.rank = dist.get_rank(group)

    @torch.no_grad()
    def compressed_allreduce(
        self, buffer: torch.Tensor, worker_error: torch.Tensor, server_error: torch.Tensor, local_rank: int
    ) -> torch.Tensor:
        """Replace ``buffer`` by the approximate mean over ranks and return it.

        ``worker_error`` (fp32, the buffer's elements rounded up to a multiple of 8 times the ranks) and
        ``server_error`` (its length by the ranks) hold what was not sent, and are updated.
        """
        padded = torch.zeros_like(worker_error)
        padded[: buffer.numel()] = buffer.reshape(-1)
        sent = self._compress(padded.view(self.size, -1), worker_error)
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent, group=self._group)
        chunk = worker_error.numel() // self.size
        served = self._compress(_restore(received, chunk).mean(0, keepdim=True), server_error)
        gathered = served.new_empty(self.size, served.shape[1])
        dist.all_gather_into_tensor(gathered, served, group=self._group)
        buffer.copy_(_restore(gathered, chunk).flatten()[: buffer.numel()].view_as(buffer))
        return buffer

    def _compress(self, values: torch.Tensor, error: torch.Tensor) -> torch.Tensor:
        """Signs of values [chunks, n] and their error, and the bytes of their scales behind; the error becomes what
        both miss.

        One message of both: most of an exchange's time is that of its collectives, not of their bytes.
        """
        values = values.add(error.view_as(values))
        scales = measure_scales(values)
        signs = pack_signs(values.view(-1)).view(len(values), -1)
        torch.sub(values, restore_signs(signs, scales), out=error.view_as(values))
        return torch.cat([signs, scales.view(torch.uint8)], dim=1)


def _restore(message: torch.Tensor, length: int) -> torch.Tensor:
    """Values [chunks, length] of signs with their scales behind."""
    signs, scales = message.split([length // _BITS, message.shape[1] - length // _BITS], dim=1)
    return restore_signs(signs, scales.contiguous().view(torch.float32))
