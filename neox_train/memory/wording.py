"""Sentences about an estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neox_train.memory.host import count_host

if TYPE_CHECKING:
    from neox_train.memory.estimate import MemoryEstimate
    from neox_train.memory.remedies import Remedy

_GIB = 1 << 30
_MIB = 1 << 20

PART_NAMES = {
    "weights": "weights",
    "master_weights": "fp32 master weights",
    "optimizer_states": "optimizer states",
    "gradients": "gradients",
    "fp8_weights": "FP8 copies of weights",
    "activations": "activations",
    "logits_and_loss": "logits and loss",
    "communication": "communication buffers",
    "optimizer_step": "optimizer temporaries",
    "workspaces": "workspaces of matrix products",
    "allocator": "allocator",
    "communicators": "NCCL's buffers",
    "process": "process",
}
"""How people read the parts."""


def word_size(size: int) -> str:
    """``12.34 GiB``, or whole MiB below one GiB."""
    return f"{size / _GIB:.2f} GiB" if size >= _GIB else f"{size / _MIB:.0f} MiB"


def word_verdict(estimate: MemoryEstimate) -> str:
    """The verdict in one sentence: need, budget, share, largest parts, phase of the peak."""
    opening = {"fits": "fits", "tight": "fits, but tightly", "does_not_fit": "does not fit"}[estimate.verdict]
    names = sorted(estimate.parts, key=lambda name: estimate.parts[name], reverse=True)[:2]
    largest = " and ".join(f"{PART_NAMES[name]} ({word_size(estimate.parts[name])})" for name in names)
    caution = "" if estimate.calibrated else "; not calibrated on such GPUs"
    return (
        f"{opening}: a rank needs {word_size(estimate.total)} of the {word_size(estimate.budget)} "
        f"{estimate.budget_name} ({estimate.fraction:.0%}), mostly {largest}, at its peak ({estimate.peak_phase})"
        f"{caution}"
    )


def word_remedies(estimate: MemoryEstimate) -> str:
    """The remedies with their totals in one clause; the keys to set are in the table and in memory.json."""
    if not estimate.remedies:
        return ""
    listed = ", or ".join(
        f"{remedy.change} ({word_size(remedy.total)}{word_speed(remedy)})" for remedy in estimate.remedies
    )
    if any(remedy.fits for remedy in estimate.remedies):
        return f"it fits with {listed}"
    other = "search other layouts with `neox-train plan`, or take a smaller model"
    if estimate.shown is None:
        other = "raise memory_gib_per_process of the cluster file if the machine has more, or take a smaller model"
    return f"nothing makes it fit here, not even {listed}; {other}"


def word_speed(remedy: Remedy) -> str:
    """``, 4,032 tokens/s/GPU`` with a word of caution, and the host memory that offloading takes; empty without."""
    host = ""
    if remedy.plan.offloads_optimizer:
        host = f", {word_size(sum(count_host(remedy.plan).values()))} of host memory"
    if remedy.tokens_per_second_per_gpu is None:
        return host
    caution = "" if remedy.calibrated else ", uncalibrated"
    return f", {remedy.tokens_per_second_per_gpu:,.0f} tokens/s/GPU{caution}{host}"


_HOST_NAMES = {
    "process": "process",
    "initial_weights": "weights drawn in fp32 at the start",
    "offloaded": "offloaded",
    "rounding": "rounding of pinned memory",
    "kept_inputs": "inputs of recomputed layers",
    "read_ahead": "micro-batches read ahead",
    "checkpoint": "a tensor being saved",
}


def word_host(estimate: MemoryEstimate) -> str:
    """One sentence on host memory, with a warning where it is more than the cluster file gives; empty on a CPU."""
    if not estimate.host:
        return ""
    total = sum(estimate.host.values())
    largest = sorted(estimate.host, key=lambda name: estimate.host[name], reverse=True)[:2]
    listed = " and ".join(f"{_HOST_NAMES[name]} ({word_size(estimate.host[name])})" for name in largest)
    sentence = f"Host memory of a rank: {word_size(total)}, mostly {listed}."
    if estimate.host_budget is not None and total > estimate.host_budget:
        sentence += (
            f" That is more than memory_gib_per_process ({word_size(estimate.host_budget)}): ask for more memory."
        )
    return sentence
