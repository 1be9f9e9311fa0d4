"""8-bit AdamW in one pass against bitsandbytes' own step, and its rounding against a search."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from neox_train.training.eight_bit import build_8bit
from neox_train.training.flat_adam8bit import FlatAdam8bit
from neox_train.training.flat_group import FlatGroup

functional = pytest.importorskip("bitsandbytes.functional", reason="pip install 'neox-train[bnb]'")
SETTINGS: dict[str, Any] = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
CUDA = torch.device("cuda")


def draw(count: int, seed: int) -> torch.Tensor:
    """Numbers over many magnitudes, most of them small."""
    generator = torch.Generator().manual_seed(seed)
    spread = 10.0 ** (-8.0 * torch.rand(count, generator=generator))
    return (torch.randn(count, generator=generator) * spread).cuda()


def prepare(start: torch.Tensor) -> tuple[FlatGroup, Any]:
    flat = FlatGroup([nn.Parameter(start.clone())], shards=1, shard=0)
    flat.cast(torch.bfloat16)
    return flat, build_8bit("adam", [{"params": [flat.master]}], paged=False, **SETTINGS)


@pytest.mark.gpu
@pytest.mark.parametrize("wide", [True, False], ids=["fp32", "bf16"])
@pytest.mark.parametrize("length", [64 * 256, 65 * 256 + 128, 4096])
def test_steps_are_those_of_bitsandbytes(length: int, wide: bool) -> None:
    start = draw(length, 0)
    flat, ours = prepare(start)
    theirs = nn.Parameter(flat.master.detach().clone())
    library = build_8bit("adam", [{"params": [theirs]}], paged=False, **SETTINGS)
    for step in range(1, 6):
        gradient = draw(flat.length, step)
        gradient = gradient if wide else gradient.bfloat16()
        norm = torch.linalg.vector_norm(gradient.float())
        FlatAdam8bit(ours).apply([flat], [gradient], norm, 1.0)
        theirs.grad = gradient.float() * (1.0 / (norm + 1e-6)).clamp(max=1.0)
        library.step()
        moved = (flat.master.detach() - theirs.detach()).abs() > 1e-5 + 1e-4 * theirs.detach().abs()
        # Sums in another order may round a moment to the next code, which the next step begins with.
        assert float(moved.float().mean()) <= (0 if step == 1 else 0.01)
        assert torch.equal(flat.weights, flat.master.bfloat16())
        state, wanted = ours.state[flat.master], library.state[theirs]
        assert state.keys() == wanted.keys() and state["step"] == wanted["step"] == step
        for number in ("1", "2"):
            scales = state[f"absmax{number}"], wanted[f"absmax{number}"]
            torch.testing.assert_close(*scales, rtol=1e-5 if step == 1 else 0.02, atol=1e-36)
            assert float((~torch.isclose(*scales, rtol=1e-5, atol=1e-36)).float().mean()) <= (0 if step == 1 else 0.05)
            found, kept = state[f"state{number}"].int(), wanted[f"state{number}"].int()
            assert step > 1 or int((found - kept).abs().max()) <= 1
            assert float((found != kept).float().mean()) < 0.01


@pytest.mark.gpu
def test_moments_are_rounded_to_the_nearest_codes() -> None:
    flat, optimizer = prepare(torch.zeros(2**20, device=CUDA))
    gradient = draw(2**20, 1).bfloat16()
    FlatAdam8bit(optimizer).apply([flat], [gradient], torch.ones((), device=CUDA), 0.0)
    state = optimizer.state[flat.master]
    given = gradient.float().view(-1, 256)
    for number, moment in (("1", 0.1 * given), ("2", 0.05 * given.square())):
        book = state[f"qmap{number}"]
        scale = moment.abs().amax(dim=1, keepdim=True)
        torch.testing.assert_close(state[f"absmax{number}"], scale[:, 0])
        wanted = moment / scale
        kept = book[state[f"state{number}"].int()].view(-1, 256)
        codes = torch.bucketize(wanted, (book[:-1] + book[1:]) / 2)
        nearest = torch.stack([(wanted - book[(codes + by).clamp(0, 255)]).abs() for by in (-1, 0, 1)]).amin(dim=0)
        # A moment below zero keeps its sign, at the price of the book's smallest step.
        assert float((kept - wanted).abs().sub(nearest).max()) < 1e-6
        assert bool(((kept < 0) == (moment < 0)).all())


@pytest.mark.gpu
def test_a_group_that_says_so_keeps_32_bits() -> None:
    flat, _ = prepare(draw(8192, 0))
    narrow, _ = prepare(draw(8192, 1))
    groups = [{"params": [flat.master], "state_bits": 32}, {"params": [narrow.master]}]
    optimizer: Any = build_8bit("adam", groups, paged=False, **SETTINGS)
    FlatAdam8bit(optimizer).apply([flat, narrow], [draw(8192, 2), draw(8192, 3)], torch.ones((), device=CUDA), 1.0)
    assert optimizer.state[flat.master]["state1"].dtype == torch.float32
    assert optimizer.state[narrow.master]["state1"].dtype == torch.uint8
    assert all(torch.equal(one.weights, one.master.bfloat16()) for one in (flat, narrow))


def test_lion_paged_states_and_a_cpu_s_are_stepped_by_the_library() -> None:
    weights = [{"params": [nn.Parameter(torch.zeros(8192))]}]
    assert not FlatAdam8bit.covers(build_8bit("lion", weights, paged=False, lr=1e-3), CUDA)
    assert not FlatAdam8bit.covers(build_8bit("adam", weights, paged=True, lr=1e-3), CUDA)
    assert not FlatAdam8bit.covers(build_8bit("adam", weights, paged=False, lr=1e-3), torch.device("cpu"))
    assert not FlatAdam8bit.covers(torch.optim.AdamW(weights), CUDA)
