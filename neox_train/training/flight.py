"""This rank's side of torch's flight recorder: a note of the step, a dump where the rank hangs."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

from neox_train.config.variables import FLIGHT_PREFIX
from neox_train.monitoring.flight_summary import describe_collective, find_pending


class StepNote:
    """Keeps the number of the last step in a file beside the dumps, which hold no steps; cheap."""

    def __init__(self, rank: int) -> None:
        self._file: int | None = None
        if prefix := os.environ.get(FLIGHT_PREFIX):
            file = Path(prefix).with_name(f"step-{rank}.txt")
            file.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)

    def write(self, step: int) -> None:
        """Replace the number."""
        if self._file is not None:
            os.pwrite(self._file, b"%d\n" % step, 0)


def dump_flight(rank: int) -> str:
    """Write this rank's dump where the launcher asked for one; the collective under way in words, empty without one.

    Called from a thread while the main one hangs. It must not fail: whoever calls it is about to tell of a hang.
    """
    try:
        content = _read_recorder()
        if content is None:
            return ""
        if prefix := os.environ.get(FLIGHT_PREFIX):
            file = Path(f"{prefix}{rank}")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        pending = find_pending(pickle.loads(content)["entries"])
        return describe_collective(pending) if pending else ""
    except Exception as error:
        return f"a collective that the flight recorder did not tell ({type(error).__name__}: {error})"


def _read_recorder() -> bytes | None:
    """The recorder's pickle, NCCL's where that is the backend; None outside of a process group."""
    # Not at module level: a job's worker watches for stalls before torch is loaded.
    import torch

    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    library = torch._C._distributed_c10d
    own = "_dump_nccl_trace" if torch.distributed.get_backend() == "nccl" else "_dump_fr_trace"
    dump = getattr(library, own, None)
    return dump() if dump else None
