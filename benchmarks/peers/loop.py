"""A peer's model under one hand-written loop: bf16 weights, fp32 masters, fused AdamW, clipping 1.0, no engine.

Prints one JSON line. ``python -m benchmarks.peers.loop PEER SIZE``.
"""

from __future__ import annotations

import argparse
import json
import time
from statistics import median

import torch

from benchmarks.peers.models import build_peer
from benchmarks.rows import SIZES


class Masters:
    """fp32 copies of bf16 weights under fused AdamW, by foreach operations throughout."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.weights = [weight for weight in model.parameters() if weight.requires_grad]
        self.copies = [weight.detach().float() for weight in self.weights]
        self.optimizer = torch.optim.AdamW(self.copies, lr=2e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    @torch.no_grad()
    def step(self) -> None:
        """Clip to 1.0, update the copies, write them back."""
        gradients = []
        for weight in self.weights:
            # One by one: both copies of all gradients at once would not fit beside 6-7B.
            if weight.grad is not None:
                gradients.append(weight.grad.float())
            weight.grad = None
        norm = torch.nn.utils.get_total_norm(gradients)
        torch._foreach_mul_(gradients, (1.0 / (norm + 1e-6)).clamp(max=1.0))
        for copy, gradient in zip(self.copies, gradients, strict=True):
            copy.grad = gradient
        self.optimizer.step()
        torch._foreach_copy_(self.weights, self.copies)
        for copy in self.copies:
            copy.grad = None


def main() -> None:
    """Measure one peer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("peer")
    parser.add_argument("size")
    parser.add_argument("--fp8", action="store_true")
    parser.add_argument("--recompute", action="store_true", help="full activation checkpointing (megatron)")
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--steps", type=int, default=30)
    arguments = parser.parse_args()
    size = SIZES[arguments.size]
    torch.manual_seed(1)
    model, compute_loss = build_peer(arguments.peer, size, fp8=arguments.fp8, recompute=arguments.recompute)
    masters = Masters(model)
    tokens = torch.randint(size.vocab_size, (4, size.micro_batch, size.seq_length + 1), device="cuda")
    seconds, losses = [], []
    for step in range(arguments.warmup + arguments.steps):
        torch.cuda.synchronize()
        began = time.perf_counter()
        loss = compute_loss(tokens[step % len(tokens)])
        loss.backward()
        masters.step()
        losses.append(loss.item())
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    per_step = median(seconds[arguments.warmup :])
    result = {
        "tokens_per_second": size.micro_batch * size.seq_length / per_step,
        "seconds_per_step": per_step,
        "peak_memory_gib": torch.cuda.max_memory_allocated() / 2**30,
        "measured_steps": arguments.steps,
        "losses": {str(step): losses[step] for step in range(0, len(losses), 10)},
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
