"""8-bit AdamW in one pass against bitsandbytes' own step, and its rounding against a search."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from neox_train.training.eight_bit import build_8bit
from neox_train.training.eight_bit_codes import ZERO, CodeBook, encode, encode_signed
from neox_train.training.flat_adam8bit import FlatAdam8bit, covers
from neox_train.training.flat_group import FlatGroup

functional = pytest.importorskip("bitsandbytes.functional", reason="pip install 'neox-train[bnb]'")
SETTINGS: dict[str, Any] = {"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def draw(count: int, device: str, seed: int) -> torch.Tensor:
    """Numbers over many magnitudes, most of them small."""
    generator = torch.Generator().manual_seed(seed)
    spread = 10.0 ** (-8.0 * torch.rand(count, generator=generator))
    return (torch.randn(count, generator=generator) * spread).to(device)


@pytest.mark.parametrize("signed", [True, False])
def test_codes_are_the_nearest(signed: bool) -> None:
    values = functional.create_dynamic_map(signed=signed)
    book = CodeBook(values)
    bounds = ((values[:-1].double() + values[1:].double()) / 2).float()
    edges = torch.cat([bounds, bounds.nextafter(torch.tensor(2.0)), bounds.nextafter(torch.tensor(-2.0)), values])
    numbers = torch.cat([draw(200_000, "cpu", 1).clamp(-1, 1), edges])
    numbers = numbers if signed else numbers.abs()
    coded = encode_signed if signed else encode
    codes = coded(numbers, book.starts, book.bounds)
    wanted = torch.bucketize(numbers, bounds, right=True)
    if signed:
        wanted = torch.where((numbers < 0) & (wanted == ZERO), ZERO - 1, wanted)
        # A bound below zero belongs to the code away from zero.
        tied = torch.isin(numbers, bounds) & (numbers < 0)
        wanted = torch.where(tied, torch.bucketize(numbers, bounds, right=False).clamp(max=ZERO - 1), wanted)
    assert torch.equal(codes.long(), wanted)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("length", [64 * 256, 64 * 256 + 128])
def test_steps_are_those_of_bitsandbytes(device: str, length: int) -> None:
    start = draw(length, device, 0)
    flat = FlatGroup([nn.Parameter(start.clone())], shards=1, shard=0)
    flat.cast(torch.bfloat16)
    theirs = nn.Parameter(start.clone())
    ours = build_8bit("adam", [{"params": [flat.master]}], paged=False, **SETTINGS)
    library = build_8bit("adam", [{"params": [theirs]}], paged=False, **SETTINGS)
    assert covers(ours)
    fused = FlatAdam8bit(ours)
    # On a CPU the library rounds small magnitudes coarsely, and a second step starts from what it kept of the first.
    for step in range(1, 6 if device == "cuda" else 2):
        gradient = draw(length, device, step).bfloat16()
        norm = torch.linalg.vector_norm(gradient.float())
        fused.apply([flat], [gradient], norm, 1.0)
        theirs.grad = gradient.float() * (1.0 / (norm + 1e-6)).clamp(max=1.0)
        library.step()
        moved = (flat.master.detach() - theirs.detach()).abs() > 1e-5 + 1e-4 * theirs.detach().abs()
        # Sums in another order may round a moment to the next code, which the next step begins with.
        assert float(moved.float().mean()) <= (0 if step == 1 else 0.01)
        assert torch.equal(flat.weights, flat.master.bfloat16())
        state, wanted = ours.state[flat.master], library.state[theirs]
        assert state.keys() == wanted.keys() and state["step"] == wanted["step"] == step
        for number in ("1", "2"):
            torch.testing.assert_close(state[f"absmax{number}"], wanted[f"absmax{number}"], rtol=1e-5, atol=1e-36)
            if device == "cuda":
                found, kept = state[f"state{number}"].int(), wanted[f"state{number}"].int()
                assert int((found - kept).abs().max()) <= 1 and float((found != kept).float().mean()) < 0.01


def test_the_first_steps_moments_are_rounded_to_the_nearest_codes() -> None:
    flat = FlatGroup([nn.Parameter(torch.zeros(8192))], shards=1, shard=0)
    flat.cast(torch.bfloat16)
    optimizer = build_8bit("adam", [{"params": [flat.master]}], paged=False, **SETTINGS)
    gradient = draw(8192, "cpu", 1).bfloat16()
    FlatAdam8bit(optimizer).apply([flat], [gradient], torch.ones(()), 0.0)
    state = optimizer.state[flat.master]
    given = gradient.float().view(-1, 256)
    for number, moment in (("1", 0.1 * given), ("2", 0.05 * given.square())):
        book = state[f"qmap{number}"]
        scale = moment.abs().amax(dim=1, keepdim=True)
        torch.testing.assert_close(state[f"absmax{number}"], scale[:, 0])
        kept = book[state[f"state{number}"].int()].view(-1, 256)
        nearest = (moment / scale)[:, :, None].sub(book).abs().amin(dim=2)
        # A moment below zero keeps its sign, at the price of the book's smallest step.
        assert float((kept - moment / scale).abs().sub(nearest).max()) < 1e-6


def test_lion_and_paged_states_are_stepped_by_the_library() -> None:
    weights = [{"params": [nn.Parameter(torch.zeros(8192))]}]
    assert not covers(build_8bit("lion", weights, paged=False, lr=1e-3))
    assert not covers(build_8bit("adam", weights, paged=True, lr=1e-3))
    assert not covers(torch.optim.AdamW(weights))
