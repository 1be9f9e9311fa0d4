"""One rank of Megatron-Core with its own data-parallel wrapper, distributed optimizer and schedules, under torchrun.

``torchrun --nproc-per-node=8 -m benchmarks.peers.megatron_ranks 6-7B/tp2-dp4/megatron-bf16``: rank 0 prints one JSON
line. bf16 weights, fp32 masters and gradients, clipping 1.0, as the trainings they stand beside.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Any

import torch

from benchmarks.peers.models import make_megatron_config, pad_vocabulary
from benchmarks.rows import SIZES, Size
from benchmarks.several_rows import SeveralRow, find_several


def main() -> None:
    """Measure one row."""
    parser = argparse.ArgumentParser()
    parser.add_argument("row")
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--steps", type=int, default=30)
    arguments = parser.parse_args()
    row = find_several(arguments.row)
    size = SIZES[row.size]
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl", device_id=device)

    from megatron.core import parallel_state
    from megatron.core.pipeline_parallel import get_forward_backward_func
    from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed

    parallel_state.initialize_model_parallel(row.tensor, row.pipeline)
    model_parallel_cuda_manual_seed(1)
    model, optimizer = _build(row, size)
    run_batches = get_forward_backward_func()
    batches = _make_batches(size, device)
    replicas = row.gpus // (row.tensor * row.pipeline)
    tokens_per_step = replicas * row.accumulation * size.micro_batch * size.seq_length
    seconds, losses = [], []
    for _ in range(arguments.warmup + arguments.steps):
        torch.cuda.synchronize()
        began = time.perf_counter()
        model.zero_grad_buffer()
        optimizer.zero_grad()
        told = run_batches(
            forward_step_func=_forward,
            data_iterator=batches,
            model=[model],
            num_microbatches=row.accumulation,
            seq_length=size.seq_length,
            micro_batch_size=size.micro_batch,
            decoder_seq_length=size.seq_length,
            forward_only=False,
        )
        optimizer.step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
        losses.append(float(told[0]["loss"]) if told else 0.0)
    if parallel_state.is_pipeline_last_stage() and torch.distributed.get_rank() in (0, row.gpus - 1):
        per_step = median(seconds[arguments.warmup :])
        result = {
            "tokens_per_second": tokens_per_step / per_step,
            "tokens_per_second_per_gpu": tokens_per_step / per_step / row.gpus,
            "seconds_per_step": per_step,
            "peak_memory_gib": torch.cuda.max_memory_allocated() / 2**30,
            "measured_steps": arguments.steps,
            "losses": {str(step): losses[step] for step in range(0, len(losses), 10)},
        }
        print(json.dumps(result), flush=True)
    torch.distributed.destroy_process_group()


def _build(row: SeveralRow, size: Size) -> tuple[Any, Any]:
    """The wrapped model of this rank and its optimizer."""
    from megatron.core import parallel_state
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_with_transformer_engine_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

    config = make_megatron_config(
        size,
        fp8=row.fp8,
        recompute=row.recompute,
        tensor_model_parallel_size=row.tensor,
        pipeline_model_parallel_size=row.pipeline,
        sequence_parallel=row.tensor > 1,
        finalize_model_grads_func=finalize_model_grads,
    )
    model = GPTModel(
        config,
        get_gpt_layer_with_transformer_engine_spec(),
        vocab_size=pad_vocabulary(size.vocab_size, row.tensor),
        max_sequence_length=size.seq_length,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        position_embedding_type="rope",
        rotary_percent=1.0,
    ).to("cuda", torch.bfloat16)
    wrapped = DistributedDataParallel(
        config,
        DistributedDataParallelConfig(
            grad_reduce_in_fp32=True, overlap_grad_reduce=True, use_distributed_optimizer=True
        ),
        model,
    )
    optimizer = get_megatron_optimizer(
        OptimizerConfig(
            optimizer="adam",
            lr=2e-4,
            weight_decay=0.1,
            adam_beta1=0.9,
            adam_beta2=0.95,
            bf16=True,
            clip_grad=1.0,
            use_distributed_optimizer=True,
        ),
        [wrapped],
    )
    return wrapped, optimizer


def _make_batches(size: Size, device: torch.device) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Four random batches in turn: inputs' windows and positions."""
    tokens = torch.randint(size.vocab_size, (4, size.micro_batch, size.seq_length + 1), device=device)
    positions = torch.arange(size.seq_length, device=device).expand(size.micro_batch, -1)
    step = 0
    while True:
        yield tokens[step % len(tokens)], positions
        step += 1


def _forward(batches: Iterator[tuple[torch.Tensor, torch.Tensor]], model: Any) -> tuple[torch.Tensor, Any]:
    tokens, positions = next(batches)
    output = model(tokens[:, :-1].contiguous(), positions, None, labels=tokens[:, 1:].contiguous())
    return output, partial(_reduce)


def _reduce(output: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    loss = output.float().mean()
    return loss, {"loss": loss.detach()}


if __name__ == "__main__":
    main()
