"""Layers computed again in the backward pass: the same gradients, and what the forward pass keeps meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from neox_train.memory.activations import count_activations, count_embedding, count_final_norm
from neox_train.model.gpt_neox import GPTNeoX
from neox_train.model.parallel.group import TensorGroup
from neox_train.model.recomputation import build_recompute
from tests.memory.live import measure_kept
from tests.memory.plans import make_plan
from tests.model.architectures import make_architecture, make_random_model, make_tokens


@pytest.fixture(autouse=True)
def torchs_own_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ZeRO 3 engine built earlier in this process has put a function of DeepSpeed's in its place, for good."""
    monkeypatch.setattr(F, "linear", torch._C._nn.linear)


HALF = TensorGroup(rank=0, size=2)


class Products(TorchDispatchMode):
    """Counts matrix products."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
        return func(*args, **(kwargs or {}))


def run(model: GPTNeoX, tokens: torch.Tensor) -> list[torch.Tensor]:
    torch.manual_seed(2)
    model.zero_grad()
    model(tokens[:, :-1], tokens[:, 1:]).backward()
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("options", [{"selective": True}, {"on_host": True}, {"selective": True, "on_host": True}])
@pytest.mark.parametrize("chunk", [1, 2])
def test_gradients_are_those_of_kept_activations_dropout_too(chunk: int, options: dict[str, Any]) -> None:
    architecture = make_architecture(hidden_dropout=0.2, activation="swiglu", residual="parallel")
    tokens = make_tokens(architecture)
    kept = run(make_random_model(architecture).train(), tokens)
    model = make_random_model(architecture, checkpoint_layers=chunk, recompute=build_recompute(**options)).train()
    again = run(model, tokens)
    assert len(kept) == len(again) == len(list(model.parameters()))
    assert all(torch.equal(mine, other) for mine, other in zip(kept, again, strict=True))


def test_selective_repeats_no_matrix_product() -> None:
    architecture = make_architecture()
    tokens = make_tokens(architecture)
    counts = {}
    for name, options in {
        "kept": {},
        "full": {"checkpoint_layers": 1},
        "selective": {"checkpoint_layers": 1, "recompute": build_recompute(selective=True)},
    }.items():
        model = make_random_model(architecture, **options).train()
        with Products() as products:
            run(model, tokens)
        counts[name] = products.count
    assert counts["selective"] == counts["kept"]
    # Stopped once all is there, the last product of each layer is not repeated.
    assert counts["full"] == counts["kept"] + 3 * architecture.num_layers


@pytest.mark.parametrize("architecture", [{}, {"activation": "swiglu", "num_kv_heads": 2, "residual": "parallel"}])
@pytest.mark.parametrize("options", [{"selective": True}, {"shared_by": HALF}, {}])
@pytest.mark.parametrize("chunk", [1, 2])
def test_bytes_kept_by_the_forward_pass_are_the_estimate_s(
    chunk: int, options: dict[str, Any], architecture: dict[str, Any]
) -> None:
    plan = make_plan(num_layers=4, checkpoint_activations=True, checkpoint_num_layers=chunk, architecture=architecture)
    plan = replace(plan, keeps_products="selective" in options, kept_input_shares=2 if "shared_by" in options else 1)
    model = GPTNeoX(plan.architecture, checkpoint_layers=chunk, recompute=build_recompute(**options)).train()
    hidden = torch.randn(plan.micro_batch, plan.architecture.seq_length, plan.architecture.hidden_size)
    kept = measure_kept(model, hidden.requires_grad_(), plan.architecture.seq_length)
    share = hidden.numel() * hidden.element_size()
    # The result stands beside what is kept, and the first chunk's input, where it is kept whole, was there before.
    beside = share if "shared_by" in options else 0
    assert kept == count_activations(plan) - count_embedding(plan) - count_final_norm(plan) + beside
