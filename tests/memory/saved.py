"""What autograd really saves and allocates for one forward and backward pass, measured on the model itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from neox_train.memory.plan import RankPlan
from neox_train.model.gpt_neox import GPTNeoX

_DTYPES = {"fp32": torch.float32, "bfloat16": torch.bfloat16}


def build_model(plan: RankPlan) -> tuple[GPTNeoX, torch.Tensor]:
    """The plan's model with random weights, and one micro-batch of tokens."""
    torch.manual_seed(5)
    model = GPTNeoX(
        plan.architecture,
        checkpoint_layers=plan.checkpoint_layers,
        document_end=0 if plan.cuts_documents else None,
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.02)
    tokens = torch.randint(0, plan.architecture.vocab_size, (plan.micro_batch, plan.architecture.seq_length + 1))
    model = model.to(_DTYPES[plan.precision]).train()
    # The first pass fills what the model keeps between passes.
    model.loss(tokens).backward()
    model.zero_grad(set_to_none=True)
    return model, tokens


def measure_saved(model: GPTNeoX, tokens: torch.Tensor) -> int:
    """Bytes of distinct tensors, parameters left out, that the backward pass of the loss keeps alive."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model.loss(tokens)
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in kept}
    del loss
    return sum(size for address, size in storages.items() if address not in weights)


def measure_peak(model: GPTNeoX, tokens: torch.Tensor) -> int:
    """Most bytes that torch's CPU allocator had handed out at once during one forward and backward pass."""
    return record_peak(lambda: model.loss(tokens).backward())


def record_peak(action: Callable[[], object]) -> int:
    """Most bytes that torch's CPU allocator had handed out at once, beyond those at the start of ``action``."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        action()
    kineto: Any = recorded.profiler
    events = [event for event in kineto.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak
