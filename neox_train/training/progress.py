"""The plain log lines of rank 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neox_train.monitoring.quantities import format_seconds


def say(message: str) -> None:
    """Print one line at once: the log is read while the run goes on."""
    print(message, flush=True)


def format_step(record: Mapping[str, Any], *, train_iters: int) -> str:
    """One line for a training record of metrics.jsonl, with the time to completion."""
    parts = [
        f"step {record['step']}/{train_iters}",
        f"loss {_number(record['loss'], '.4f')}",
        f"lr {record['lr']:.3e}",
        f"grad norm {_number(record['grad_norm'], '.3f')}",
        f"{record['tokens_per_second']:,.0f} tokens/s",
    ]
    if record["mfu"] is not None:
        parts.append(f"MFU {record['mfu']:.1%}")
    if record["loss_scale"] is not None:
        parts.append(f"loss scale {record['loss_scale']:g}")
    if record["skipped_steps"]:
        parts.append(f"{record['skipped_steps']} skipped")
    left = (train_iters - record["step"]) * record["seconds_per_step"]
    parts.append("done" if left == 0 else f"{format_seconds(left)} to go")
    return " | ".join(parts)


def _number(value: float | None, form: str) -> str:
    return "not finite" if value is None else format(value, form)
