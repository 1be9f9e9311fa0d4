"""One of two ranks that hold halves of the logits: ``python -m tests.model.parallel.loss_worker JOB``.

JOB is a JSON list of cases with ``vocab_size``, ``padded`` and ``dtype``, perhaps ``ignored``: every so many targets.
Every rank compares its loss and its half of the logits' gradient with those of the whole logits, and leaves what it saw
in ``seen-RANK.json`` beside JOB.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from neox_train.model.loss import IGNORED, cross_entropy
from neox_train.model.parallel.group import TensorGroup
from neox_train.model.parallel.loss import vocabulary_cross_entropy
from tests.memory.saved import record_peak

ROWS = 64


def compare(case: dict[str, Any], group: TensorGroup) -> dict[str, float]:
    """Largest differences to the whole, and the most bytes held besides the logits."""
    generator = torch.Generator().manual_seed(4)
    vocab_size, padded, dtype = case["vocab_size"], case["padded"], getattr(torch, case["dtype"])
    whole = (4 * torch.randn(2, ROWS, padded, generator=generator)).to(dtype).requires_grad_()
    targets = torch.randint(0, vocab_size, (2, ROWS), generator=generator)
    if case.get("ignored"):
        targets[:, :: case["ignored"]] = IGNORED
    reference = cross_entropy(whole, targets, vocab_size=vocab_size)
    reference.backward()
    halves = (whole.detach().chunk(2, -1), whole.grad.chunk(2, -1))
    logits, wanted = (half[group.rank].contiguous() for half in halves)
    logits.requires_grad_()
    losses = []

    def run() -> None:
        losses.append(vocabulary_cross_entropy(logits, targets, vocab_size=vocab_size, group=group))
        losses[0].backward()

    peak = record_peak(run)
    return {
        "loss": abs(float(losses[0]) / float(reference) - 1),
        "gradient": float((logits.grad - wanted).abs().max() / wanted.abs().max().clamp_min(1e-30)),
        "padding": float(logits.grad[..., max(0, vocab_size - group.rank * padded // 2) :].abs().sum()),
        "peak": peak,
    }


def main() -> None:
    """Compare every case."""
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    group = TensorGroup(rank=rank, size=2, process_group=torch.distributed.group.WORLD)
    job = Path(sys.argv[1])
    seen = [compare(case, group) for case in json.loads(job.read_text())]
    job.with_name(f"seen-{os.environ['RANK']}.json").write_text(json.dumps(seen))
    torch.distributed.destroy_process_group()


main()
