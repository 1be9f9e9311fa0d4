"""One row of benchmarks/memory.py: the real training in this process, its memory read at the steps' boundaries.

``python -m benchmarks.memory_child RUN_FOLDER RESULT.json STEPS``: imports, says ``ready``, waits for a line on
standard input, trains STEPS steps, writes the result and ends without a checkpoint.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

_GIB = 1 << 30
_QUERY = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]


@dataclass
class Readings:
    """Bytes that torch's allocator has handed out; the highest of each part of a step, over the steps."""

    on_gpu: bool
    start_peak: int = 0
    """Highest before the first forward pass."""
    before_forward: int = 0
    after_forward: int = 0
    forward_peak: int = 0
    backward_peak: int = 0
    step_peak: int = 0
    reserved_peak: int = 0
    allocated_peak: int = 0
    between_steps: list[int] = field(default_factory=list)

    def take_peak(self) -> int:
        """The highest since the last call, which counts into the peak of all."""
        if not self.on_gpu:
            return 0
        peak = torch.cuda.max_memory_allocated()
        self.allocated_peak = max(self.allocated_peak, peak)
        self.reserved_peak = max(self.reserved_peak, torch.cuda.max_memory_reserved())
        torch.cuda.reset_peak_memory_stats()
        return peak

    def now(self) -> int:
        """Allocated at this moment."""
        return torch.cuda.memory_allocated() if self.on_gpu else 0


def train(run_folder: str, result: Path, steps: int) -> None:
    """Train in this process until ``steps`` updates are made, then write ``result`` and end the process."""
    from neox_train.training import entry, loop, saving

    readings = Readings(on_gpu=torch.cuda.is_available())
    made = 0
    # No checkpoint is ever written: no room for one is needed.
    saving.require_space = lambda *_, **__: []  # type: ignore[assignment]
    build_engine, run_step = entry.build_engine, loop.run_step

    def build_and_hook(*arguments: Any, **options: Any) -> Any:
        engine, model = build_engine(*arguments, **options)
        model.register_forward_pre_hook(lambda *_: _begin_forward(readings))
        model.register_forward_hook(lambda *_: _end_forward(readings))
        backward = engine.backward

        def read_backward(*given: Any, **named: Any) -> Any:
            done = backward(*given, **named)
            readings.backward_peak = max(readings.backward_peak, readings.take_peak())
            return done

        engine.backward = read_backward
        readings.start_peak = readings.take_peak()
        return engine, model

    def read_step(*arguments: Any, **options: Any) -> Any:
        nonlocal made
        done = run_step(*arguments, **options)
        readings.step_peak = max(readings.step_peak, readings.take_peak())
        readings.between_steps.append(readings.now())
        made += 1
        if made == steps:
            _leave(result, {"measured": _summarise(readings), "loss": done.loss})
        return done

    entry.build_engine, loop.run_step = build_and_hook, read_step
    try:
        entry.train_rank(run_folder)
    except BaseException as error:
        told = traceback.format_exception_only(error) + traceback.format_tb(error.__traceback__)[-3:]
        _leave(result, {"error": [line.strip() for line in told], "measured": _summarise(readings)})


def _begin_forward(readings: Readings) -> None:
    readings.take_peak()
    readings.before_forward = max(readings.before_forward, readings.now())


def _end_forward(readings: Readings) -> None:
    readings.forward_peak = max(readings.forward_peak, readings.take_peak())
    readings.after_forward = max(readings.after_forward, readings.now())


def _summarise(readings: Readings) -> dict[str, Any]:
    bytes_read = {name: value for name, value in asdict(readings).items() if name != "on_gpu"}
    if not readings.on_gpu:
        return {**bytes_read, "host_gib": _read_host_gib()}
    free, total = torch.cuda.mem_get_info()
    return {
        **bytes_read,
        "max_memory_allocated_gib": readings.allocated_peak / _GIB,
        "max_memory_reserved_gib": readings.reserved_peak / _GIB,
        "reserved_now_gib": torch.cuda.memory_reserved() / _GIB,
        "nvidia_smi_gib": _read_own_gib(),
        "card_used_gib": (total - free) / _GIB,
        "host_gib": _read_host_gib(),
    }


def _read_own_gib() -> float | None:
    """What nvidia-smi counts for this process; None where it does not list it by this number."""
    try:
        listed = subprocess.run(_QUERY, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    used = dict(line.split(", ") for line in listed.splitlines() if ", " in line).get(str(os.getpid()), "")
    return int(used) / 1024 if used.isdigit() else None


def _read_host_gib() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / (1 << 20)


def _leave(result: Path, content: dict[str, Any]) -> None:
    written = result.with_suffix(".part")
    written.write_text(json.dumps(content))
    written.replace(result)
    sys.stdout.flush()
    sys.stderr.flush()
    # Compile workers and the loader's threads are not waited for.
    os._exit(1 if "error" in content else 0)


def main() -> None:
    """Import what a training needs, wait for the word, train."""
    run_folder, result, steps = sys.argv[1:]
    import neox_train.training.entry  # noqa: F401

    print("ready", flush=True)
    if sys.stdin.readline().strip() != "go":
        os._exit(2)
    train(run_folder, Path(result), int(steps))


if __name__ == "__main__":
    main()
