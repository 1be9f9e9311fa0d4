"""The configurations of benchmarks/memory.py: what each changes, and whether constants may be fitted to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.own_row import describe_row
from benchmarks.rows import SIZES, Row

_TE = {"te_mha": True, "te_layernorm_mlp": True}
_DELAYED = {**_TE, "te_fp8": True}
_CURRENT = {**_TE, "te_fp8_recipe": "current"}
_EAGER = {"torch_compile": False}
_FULL = {"checkpoint_activations": True}
_SELECTIVE = {"checkpoint_activations": True, "checkpoint_granularity": "selective", "torch_compile": False}
_STATES = ("offload_optimizer",)
_8BIT = {"use_bnb_optimizer": True}
# A scale at which no step is skipped: the optimizer's states exist from the first one on.
_FP16 = {"precision": "fp16", "fp16": {"enabled": True, "initial_scale_power": 8}}


def _zero(stage: int, *offloaded: str) -> dict[str, Any]:
    return {"zero_optimization": {"stage": stage, **{name: {"device": "cpu"} for name in offloaded}}}


@dataclass(frozen=True, kw_only=True)
class MemoryRow:
    """One configuration; ``is_fitted`` marks those that constants of the estimate are fitted to."""

    name: str
    size: str
    micro_batch: int
    seq_length: int
    changes: dict[str, Any]
    is_fitted: bool

    def describe(self, store: Path) -> dict[str, Any]:
        """Its GPT-NeoX keys, without a checkpoint or a validation in the few steps that run."""
        changes = {
            "train_micro_batch_size_per_gpu": self.micro_batch,
            "seq_length": self.seq_length,
            "max_position_embeddings": self.seq_length,
            "log_interval": 1,
            "eval_iters": 0,
            **self.changes,
        }
        return describe_row(Row(name=self.name, size=self.size, changes=changes), store)


def _row(
    size: str, variant: str, micro_batch: int, seq_length: int = 2048, *, fit: bool = False, **changes: Any
) -> MemoryRow:
    name = f"{size}/{variant}-{micro_batch}x{seq_length}"
    return MemoryRow(
        name=name, size=size, micro_batch=micro_batch, seq_length=seq_length, changes=changes, is_fitted=fit
    )


# In the order they start: what waits longest for memory first, then by what it tells.
ROWS: tuple[MemoryRow, ...] = (
    _row("6-7B", "adam8bit-checkpointing", 4, **_8BIT, **_FULL),
    _row("1-3B", "bf16", 8, fit=True),
    _row("1-3B", "te", 4, **_TE),
    _row("410M", "fp8-delayed", 8, fit=True, **_DELAYED),
    _row("410M", "te", 8, fit=True, **_TE),
    _row("125M", "bf16", 16, fit=True),
    _row("125M", "fp32-eager", 4, fit=True, precision="fp32", **_EAGER),
    _row("1-3B", "fp8-delayed", 4, **_DELAYED),
    _row("125M", "zero2-eager", 8, fit=True, **_zero(2), **_EAGER),
    _row("125M", "zero3", 8, fit=True, **_zero(3)),
    _row("1-3B", "bf16", 4),
    _row("410M", "fp8-current", 8, fit=True, **_CURRENT),
    _row("125M", "te", 16, **_TE),
    _row("2-7B", "adam8bit", 2, **_8BIT),
    _row("125M", "bf16-eager", 8, 1024, **_EAGER),
    _row("125M", "bf16", 32),
    _row("410M", "zero2", 8, **_zero(2)),
    _row("410M", "zero3", 8, **_zero(3)),
    _row("1-3B", "adam8bit", 8, **_8BIT),
    _row("410M", "checkpointing", 32, 1024, **_FULL),
    _row("1-3B", "fp8-current", 8, 1024, **_CURRENT),
    _row("410M", "selective-eager", 8, **_SELECTIVE),
    _row("125M", "fp8-delayed", 16, **_DELAYED),
    _row("410M", "bf16", 4, 4096),
    _row("1-3B", "checkpointing", 16, **_FULL),
    _row("125M", "fp16-zero0", 8, **_zero(0), **_FP16),
    _row("410M", "fp16-zero2", 8, **_zero(2), **_FP16),
    _row("410M", "fp32", 4, 1024, precision="fp32"),
    _row("1-3B", "fp8-delayed-checkpointing", 8, **_DELAYED, **_FULL),
    _row("410M", "te-columns-rows", 8, te_columnparallel=True, te_rowparallel=True),
    _row("2-7B", "checkpointing", 4, 4096, **_FULL),
    _row("125M", "bf16", 8, 4096),
    _row("410M", "zero0-engine", 8, **_zero(0), flat_master_weights=False),
    _row("410M", "swiglu", 8, activation="swiglu", norm="rmsnorm", num_kv_heads=4),
    _row("125M", "adam8bit", 16, fit=True, **_8BIT),
    _row("125M", "checkpointing", 16, fit=True, **_FULL),
    _row("125M", "accumulation", 8, gradient_accumulation_steps=2),
    _row("1-3B", "bf16", 2, 4096),
    _row("410M", "whole-logits", 4, loss_chunk_tokens=0),
    _row("2-7B", "te-adam8bit", 2, **_TE, **_8BIT),
    _row("6-7B", "checkpointing", 1, **_FULL),
    _row("410M", "offload", 8, **_zero(2, *_STATES)),
    _row("410M", "zero3-offload", 8, **_zero(3, *_STATES, "offload_param")),
    _row("1-3B", "offload", 8, **_zero(2, *_STATES)),
)

TINY: tuple[MemoryRow, ...] = (
    _row("tiny", "bf16", 2, 64, fit=True),
    _row("tiny", "zero3", 2, 64, **_zero(3)),
    _row("tiny", "offload", 2, 64, **_zero(2, *_STATES)),
    _row("tiny", "refused", 2, 64, activation="unheard-of"),
)
"""For a rehearsal on a CPU; the last must end with an error of its own."""


def find_rows(names: list[str]) -> list[MemoryRow]:
    """The rows whose names contain one of ``names``, or all; KeyError where a name finds none. ``tiny`` rehearses."""
    known = {row.name: row for row in (*ROWS, *TINY)}
    if not names:
        return list(ROWS)
    for name in names:
        if not any(name in other for other in known):
            raise KeyError(f"row {name}; known: {', '.join(known)}")
    return [row for row in known.values() if any(name in row.name for name in names)]


def vocab_size(row: MemoryRow) -> int:
    """Token ids of the row's store."""
    return SIZES[row.size].vocab_size
