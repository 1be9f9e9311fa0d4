"""Gradient norms of ranks that share a model: what several of them hold alike counts once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from deepspeed import DeepSpeedEngine


@torch.no_grad()
def measure_norm(engine: DeepSpeedEngine) -> torch.Tensor:
    """L2 norm, fp32, of the gradients in ``.grad`` of an engine without ZeRO, the same on every rank (collective)."""
    mpu = engine.mpu
    parameters = [p for p in engine.module.parameters() if p.grad is not None]
    if mpu is not None:
        parameters = [p for p in parameters if _counts_here(p, mpu.get_model_parallel_rank())]
    squares = _sum_squares([p.grad for p in parameters], torch.device(engine.device))
    if mpu is not None:
        dist.all_reduce(squares, group=mpu.get_model_parallel_group())
    return squares.sqrt()


def measure_norm_at_once(engine: DeepSpeedEngine) -> None:
    """Let the engine's ZeRO 1 or 2 optimizer sum the squares of all groups in one exchange; others stay as they are.

    DeepSpeed 0.19.6 makes one exchange a group, over all stages of a pipeline, and stages that hold other kinds of
    parameters have other numbers of groups: they would wait for each other for good.
    """
    optimizer: Any = engine.optimizer
    if not hasattr(optimizer, "get_grad_norm_direct") or getattr(optimizer, "cpu_offload", False):
        # Offloaded gradients are measured as they leave for the host; no pipeline is built with them.
        return

    @torch.no_grad()
    def measure(norm_type: int = 2) -> torch.Tensor:
        # A partition may end with padding, zeros without a parameter.
        held = [
            gradient
            for group in range(len(optimizer.bit16_groups))
            for gradient, parameter in zip(
                optimizer.averaged_gradients[group], optimizer.params_in_partition[group], strict=False
            )
            if _counts_here(parameter, optimizer.model_parallel_rank)
        ]
        squares = _sum_squares(held, torch.device(engine.device))
        dist.all_reduce(squares, group=optimizer.dp_process_group)
        optimizer._model_parallel_all_reduce(tensor=squares, op=dist.ReduceOp.SUM)
        return squares.sqrt()

    optimizer.scaled_global_norm = measure


def _counts_here(parameter: torch.nn.Parameter, model_parallel_rank: int) -> bool:
    if getattr(parameter, "ds_pipe_replicated", False):
        return False
    return model_parallel_rank == 0 or bool(getattr(parameter, "model_parallel", False))


def _sum_squares(gradients: list[torch.Tensor], device: torch.device) -> torch.Tensor:
    if not gradients:
        return torch.zeros((), dtype=torch.float32, device=device)
    # A norm at a time is made in fp32: the sum of an fp16 gradient's squares may be beyond its range.
    norms = [torch.linalg.vector_norm(gradient, dtype=torch.float32) for gradient in gradients]
    return torch.stack(norms).square().sum()
